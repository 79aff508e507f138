"""The shape of a plane of random numbers: how many replicates advance together, and how far.

CHUNK is part of the address of a random number (a normal's partner lies half a chunk away):
changing it changes every result, so raise streams.STREAM_VERSION with it. LANES is a matter of speed
alone: every lane has its own streams.
"""

LANES = 32  # replicates in lockstep: four vector registers of eight doubles, or eight of four
CHUNK = 128  # draws per plane and lane: a plane is 32 KiB
PLANE = CHUNK * LANES
STRIDE = PLANE + LANES
"""From plane to plane in a kernel. At a distance of 32 KiB the same draw of all planes would fall into
the same sets of the first-level cache, which from ten planes on costs a kernel half its speed."""
