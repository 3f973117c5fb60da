"""`scripts/bench get`: one file, and a hundred small ones."""
