"""What harnesses tell by their hooks, and what they are told: a dialect each, one meaning."""
