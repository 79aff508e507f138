"""ldpflow: Monte Carlo studies of confidence intervals from locally private SGD.

The randomness in a simulation is seeded floating-point noise: it studies statistics and
protects nobody.
"""

__version__ = "0.1.0"
