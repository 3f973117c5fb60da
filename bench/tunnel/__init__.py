"""`scripts/bench tunnel`: local ports through a proxy."""
