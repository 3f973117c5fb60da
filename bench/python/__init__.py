"""The Python package, and packages of others that do the same: `scripts/bench python`."""
