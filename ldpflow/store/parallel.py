"""Many files at a time: object stores answer slowly, one request after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["ahead", "in_parallel"]

READERS = 8
AHEAD = 4

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Map over threads, in order; all results at once."""
    items = list(items)
    if len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(function, items))


def ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
    """Items and results in order, the next few computed in threads while one is used."""
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    pool = ThreadPoolExecutor(AHEAD)
    try:
        for item in items:
            waiting.append((item, pool.submit(function, item)))
            if len(waiting) > AHEAD:
                item, future = waiting.popleft()
                yield item, future.result()
        while waiting:
            item, future = waiting.popleft()
            yield item, future.result()
    finally:
        # Without waiting: a generator that is given up may be collected anywhere, inside a lock too.
        pool.shutdown(wait=False, cancel_futures=True)
