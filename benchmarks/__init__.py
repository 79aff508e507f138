"""Benchmarks of ldpflow against other programs and against lower bounds of its own time."""
