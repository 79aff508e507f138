"""The shape of a plane of random numbers: how many replicates advance together, and how far.

Both are part of the address of a random number (a normal's partner lies half a chunk away), so
changing one changes every result: raise streams.STREAM_VERSION with it.
"""

LANES = 32  # replicates in lockstep: eight vector registers of four, or four of eight
CHUNK = 128  # draws per plane and lane: a plane is 32 KiB
PLANE = CHUNK * LANES
