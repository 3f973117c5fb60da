"""`scripts/bench wan`: downloads over long links."""
