"""Performance measures with Monte Carlo standard errors."""
