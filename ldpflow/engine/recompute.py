"""A random share of a run's replicates computed again and compared with what is stored, bit by bit."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from ldpflow.engine.replay import equal_bits, planned_path, replay, replayed_trajectory
from ldpflow.errors import InputError, LdpflowError
from ldpflow.store import Part, RunStore
from ldpflow.study.stored import check_plugins, stored_study

__all__ = ["checked_share", "recomputed"]

BLOCK = 8
"""Replicates that are computed together."""


def checked_share(share: float | None) -> None:
    """Refuse a share that is none.

    Raises
    ------
    InputError
        Naming ``recompute``.
    """
    if share is not None and not 0 < share <= 1:
        raise InputError("recompute", share, "a share of the replicates, above 0 and at most 1")


def blocks(parts: list[Part], share: float, chance: random.Random) -> list[tuple[int, int]]:
    """Random ranges of replicates of one path, about this share of all and at least one."""
    found = []
    for part in parts:
        starts = range(part.first, part.last, BLOCK)
        chosen = chance.sample(starts, math.ceil(share * len(starts)))
        found += [(start, min(start + BLOCK, part.last)) for start in sorted(chosen)]
    return sorted(set(found))


def recomputed(store: RunStore, good: list[Part], share: float, seed: int | None = None) -> Iterator[str]:
    """Differences in a random share of the replicates when these are computed again.

    Parameters
    ----------
    store : RunStore
    good : list of Part
        Parts whose rows can be read.
    share : float
        Of the replicates of every part, above 0 and at most 1.
    seed : int, optional
        Of the choice, which is another one every time unless given: those who edit rows must not know it.

    Yields
    ------
    str
        One line per part of the choice that differs or cannot be computed.
    """
    chance = random.Random(seed)
    try:
        study = stored_study(store, to_run=True)
        check_plugins(store, study)
    except InputError as error:
        yield str(error)
        return
    by_path: dict[tuple[str, str], list[Part]] = {}
    for part in good:
        by_path.setdefault((part.kind.folder, part.path_key), []).append(part)
    for (folder, key), parts in sorted(by_path.items(), key=lambda item: item[0]):
        plan, _ = planned_path(study, key)
        for first, end in blocks(parts, share, chance):
            where = f"path p{key}, replicates {first} to {end - 1}"
            try:
                if folder == store.replicates.kind.folder:
                    computed, stored = replay(store.address, key, first, end - 1, damaged=[])
                elif plan is not None and plan.checkpoints and study is not None:
                    computed, stored = replayed_trajectory(store, plan, study.seed, first, end, [])
                else:
                    yield f"{where}: trajectories not computed again, since no study.toml names them"
                    break
            except LdpflowError as error:
                yield f"{where}: cannot be computed again: {error}"
                break
            if not equal_bits(computed, stored):
                yield f"{where}: {folder} computed again differ from the stored ones"
