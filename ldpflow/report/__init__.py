"""Figures, the report, live progress and dashboards.

The figures need the extra ``report``; nothing is imported here until it is asked for.
"""
