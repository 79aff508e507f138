"""Kernels: recursions compiled with their gradient, randomiser and running sums."""
