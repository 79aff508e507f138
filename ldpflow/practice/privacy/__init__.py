"""Privacy guarantees of a mechanism in a design."""
