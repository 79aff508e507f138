"""Simulators: they run replicates of a path and turn its record into rows."""
