"""Addresses of random numbers: study seed, role, key, replicate, position.

The role is ``data``, ``mechanism``, ``multipliers`` or another use of randomness. The key names settings,
such as those of a problem or a path. SHA-256 makes a digest of the first four parts.

* A sequential stream is xoshiro256++ that starts at the digest. The position is the place in the stream.
* A counter stream is Philox4x32-10 with a key from the digest. The position is a 128-bit counter, for
  example (tree, level, index) of a node. Any position can be drawn first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

LANES = 32  # replicates that a kernel runs side by side; changes speed, not bits
CHUNK = 128
"""Draws of one lane in a plane, which has CHUNK * LANES doubles (32 KiB). The two normals of a pair lie
CHUNK/2 draws apart, so another CHUNK moves random numbers and needs another STREAM_VERSION."""

PLANE = CHUNK * LANES

STRIDE = PLANE + LANES
"""Distance between the starts of two planes in a kernel's array. At a distance of PLANE the i-th draws of all
planes fall into one set of the first-level cache, and with ten planes a kernel loses half its speed."""

STREAM_VERSION = 1
"""Increased when an address gets other bits. Every Parquet part of a run stores it."""


def address_digests(seed: int, role: str, key: str, replicates: Iterable[int]) -> list[bytes]:
    """SHA-256 of ldpflow/VERSION/SEED/ROLE/KEY/REPLICATE, for each replicate."""
    common = hashlib.sha256(f"ldpflow/{STREAM_VERSION}/{seed}/{role}/{key}/".encode())
    found = []
    for replicate in replicates:
        whole = common.copy()
        whole.update(f"{replicate}".encode())
        found.append(whole.digest())
    return found


def lane_states(seed: int, role: str, key: str, replicates: Iterable[int]) -> NDArray[np.uint64]:
    """Initial states of the sequential streams of up to LANES replicates, flat over (word, lane).

    Further lanes repeat the state of the first replicate.
    """
    digests = address_digests(seed, role, key, replicates)
    digests += digests[:1] * (LANES - len(digests))
    states = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
    return np.ascontiguousarray(states.reshape(LANES, 4).T).reshape(-1)


def counter_keys(seed: int, role: str, key: str, replicate: int) -> tuple[int, int]:
    """Two 32-bit words, the key of a replicate's counter stream."""
    (digest,) = address_digests(seed, role, key, [replicate])
    words = np.frombuffer(digest, dtype="<u4")
    return int(words[0]), int(words[1])


def lane_keys(seed: int, role: str, key: str, replicates: Iterable[int]) -> NDArray[np.uint64]:
    """Keys of up to LANES counter streams, flat over (word, lane), shape (2 * LANES,)."""
    first = lane_states(seed, role, key, replicates)[:LANES]
    return np.concatenate([first & np.uint64(0xFFFFFFFF), first >> np.uint64(32)])
