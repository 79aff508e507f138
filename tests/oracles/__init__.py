"""Literal, slow NumPy versions of the published formulas, against which the engine is tested.

Nothing here imports the package under test. Paths are stored in full, sums are loops.
"""
