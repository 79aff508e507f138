"""Figures, the report and the DuckDB export. They need the packages of the extra ``report``."""
