"""How agents are started on this host, found again, and ended."""
