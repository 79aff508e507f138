"""Privacy accounting: what a whole transcript costs."""
