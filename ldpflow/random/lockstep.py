"""The shape of a plane of random numbers: how many replicates advance together, and how far.

CHUNK is part of the address of a random number (a normal's partner lies half a chunk away):
changing it changes every result, so raise streams.STREAM_VERSION with it. LANES is a matter of speed
alone: every lane has its own streams.
"""

LANES = 32  # replicates in lockstep: four vector registers of eight doubles, or eight of four
CHUNK = 128  # draws per plane and lane: a plane is 32 KiB
PLANE = CHUNK * LANES
