"""What the benches share: programs and servers to measure, cases, tables, the command line."""
