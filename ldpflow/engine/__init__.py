"""Scheduling of batches: one loop, and executors in this process or on Ray."""
