"""Simulated users that answer a running collector, and how long it took.

    python load_test.py --port 8000 --users 10000

Values are drawn here only because these users are not real: from N(0, 30^2).
"""

from __future__ import annotations

import argparse
import random
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

from client import Device

__all__ = ["simulate_users"]


def simulate_users(host: str, port: int, users: int, workers: int = 4, seed: int = 1) -> int:
    """Let users with values from N(0, 30^2) take part, some at a time; how many were counted."""
    law = random.Random(seed)
    values = [law.gauss(0.0, 30.0) for _ in range(users)]

    def one(value: float) -> bool:
        return Device(value, Fraction(1)).take_part(host, port)

    with ThreadPoolExecutor(workers) as pool:
        return sum(pool.map(one, values))


def main() -> None:
    """Run the users and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=4, help="users at a time")
    arguments = parser.parse_args()
    started = time.monotonic()
    counted = simulate_users(arguments.host, arguments.port, arguments.users, arguments.workers)
    seconds = time.monotonic() - started
    print(f"{counted:,} of {arguments.users:,} users counted in {seconds:.1f} s")


if __name__ == "__main__":
    main()
