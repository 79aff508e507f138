"""Random numbers: who gets which (streams) and how they are drawn in bulk (samplers)."""
