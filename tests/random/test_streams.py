"""Streams: the generators bit by bit, and who gets which numbers."""

import hashlib

import numpy as np
import pytest

from ldpflow.numerics import samplers
from ldpflow.numerics.registers import philox
from ldpflow.numerics.streams import CHUNK, LANES, PLANE, STREAM_VERSION, counter_keys, lane_states

MASK = (1 << 64) - 1


def xoshiro256_plus_plus(state):
    """Blackman and Vigna's reference algorithm, in Python integers."""
    s = [int(x) for x in state]

    def rotl(x, k):
        return ((x << k) | (x >> (64 - k))) & MASK

    while True:
        yield (rotl((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 45)


def test_bulk_bits_are_xoshiro_lane_by_lane():
    published = xoshiro256_plus_plus([1, 2, 3, 4])
    assert [next(published) for _ in range(3)] == [41943041, 58720359, 3588806011781223]
    state, out = lane_states(7, "data", "key", range(LANES)), np.empty((3, PLANE))
    words = state.reshape(4, LANES).copy()
    for plane in out:
        samplers.fill_bits(state, plane)
    drawn = out.view(np.uint64).reshape(3 * CHUNK, LANES)
    for lane in (0, 5, LANES - 1):
        reference = xoshiro256_plus_plus(words[:, lane])
        assert [int(x) for x in drawn[:, lane]] == [next(reference) for _ in range(3 * CHUNK)]


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(key, counter, words):
    assert tuple(int(x) for x in philox(*key, *counter)) == words


def test_an_address_is_the_sha256_of_its_parts_in_any_lane():
    digest = hashlib.sha256(f"ldpflow/{STREAM_VERSION}/3/data/k/17".encode()).digest()
    states = lane_states(3, "data", "k", [17]).reshape(4, LANES)
    assert states[:, 0].tobytes() == digest
    assert (states == states[:, :1]).all()
    assert (lane_states(3, "data", "k", range(10, 20)).reshape(4, LANES)[:, 7] == states[:, 0]).all()
    assert counter_keys(3, "data", "k", 17)[0] == int.from_bytes(digest[:4], "little")
