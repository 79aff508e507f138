"""Asymptotic variances and published bounds as functions."""
