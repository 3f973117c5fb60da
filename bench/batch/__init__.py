"""`scripts/bench batch`: many files in one run."""
