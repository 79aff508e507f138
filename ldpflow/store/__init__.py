"""Parquet parts, resume, provenance and the lock of a run directory."""
