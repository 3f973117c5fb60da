"""Scripts that run in the environments of the clients that they measure."""
