"""Intervals from private reports that were really collected: post-processing, without raw data."""
