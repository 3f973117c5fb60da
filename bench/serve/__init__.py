"""`scripts/bench serve`: the file store."""
