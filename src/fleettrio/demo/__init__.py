"""`fleettrio demo`: two hosts, a broker and a worker on one machine, and a story about each promise."""
