"""Comparison of a study with the rows of an existing run: equal, an extension, or different.

A run may grow: more replicates, any n, budget, level, method and their settings, further problems
and algorithms. It may not change what it is a run of: another seed, or a setting of the paths put
in the place of one that has rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ldpflow.engine.batching import Missing
from ldpflow.engine.events import Planned
from ldpflow.errors import InputError
from ldpflow.intervals.interval import columns_of
from ldpflow.random.streams import STREAM_VERSION
from ldpflow.results.summary import names_of_summary
from ldpflow.settings import canonical_json
from ldpflow.simulators.cell import Cell, by_runs
from ldpflow.simulators.simulator import Plan, Simulator
from ldpflow.simulators.stored import runnable_simulator
from ldpflow.store import Part, RunStore, UnreadablePart, cell_id
from ldpflow.store.part import Ranges, intersect, subtract
from ldpflow.study import Study
from ldpflow.study.plugins import plugins_of
from ldpflow.study.stored import stored_mapping

__all__ = ["declare_columns", "gaps", "planned", "usable_parts"]

BUDGET = ("epsilon", "mu", "delta")  # a run may take on, and let go of, any budget


def usable_parts(store: RunStore, study: Study) -> list[Part]:
    """The parts that the study can go on from; what is broken or foreign is set aside.

    Raises
    ------
    InputError
        With a diff, if the run is one of another seed or of other paths.
    """
    parts: list[Part] = []
    unusable: list[UnreadablePart] = []
    for dataset in store.datasets():
        parts += dataset.scan(damaged=unusable)
    own = {"seed": study.seed, "stream_version": STREAM_VERSION}
    foreign = [part for part in parts if any(part.meta[name] != own[name] for name in own)]
    if foreign:
        if stored_seed(store) != study.seed or len(foreign) == len(parts):
            had = {name: foreign[0].meta[name] for name in own}
            raise refused(store, [(name, [had[name]], [own[name]]) for name in own])
        # The run is this study's: a part of another seed was put into it.
        unusable += [
            UnreadablePart(part.name, f"it has rows of seed {part.meta['seed']}") for part in foreign
        ]
    for part in unusable:
        moved = store.set_aside(part)
        warnings.warn(
            f"{store.full(part.name)} cannot be used and is computed again: {part.reason} (moved to {moved})",
            stacklevel=2,
        )
    parts = [part for part in parts if part not in foreign]
    check_plugins(store, parts, study)
    check_paths(store, parts, study)
    return parts


def stored_seed(store: RunStore) -> Any:
    """The seed that study.toml names, or None."""
    try:
        return (stored_mapping(store) or {}).get("seed")
    except InputError:
        return None


def check_plugins(store: RunStore, parts: Iterable[Part], study: Study) -> None:
    """Refuse to continue rows of a plug-in whose source has changed since.

    Raises
    ------
    InputError
        Naming the plug-in, with both digests.
    """
    for plugin in plugins_of(study.components()):
        for part in parts:
            before = part.meta["versions"].get(plugin.version_name)
            if before not in (None, plugin.sha256):
                raise InputError(
                    f"plugins.{plugin.name}", f"SHA-256 {plugin.sha256}",
                    f"the source that the rows in {store.root} were made with, SHA-256 {before}",
                    f"The run keeps a copy of it in {store.full(plugin.folder(before))}. "
                    "Choose another `out` for the changed source, or start over with `fresh`.",
                )  # fmt: skip


def check_paths(store: RunStore, parts: Iterable[Part], study: Study) -> None:
    """Refuse a study that puts settings of paths in the place of those that have rows."""
    by_key = {part.path_key: part.meta["path_settings"] for part in parts}
    had = [designed(runnable_simulator(settings)) for settings in by_key.values()]
    wanted = [designed(plan.simulator) for plan in study.plans()]
    texts = [{canonical_json(design) for design in designs} for designs in (had, wanted)]
    if texts[0] <= texts[1] or texts[1] <= texts[0]:
        return
    changes = []
    for name in sorted({name for design in (*had, *wanted) for name in design}):
        before, after = (distinct(d.get(name) for d in designs) for designs in (had, wanted))
        changes.append((name, before, after))
    raise refused(store, changes)


def designed(simulator: Simulator[Any, Any]) -> dict[str, Any]:
    """Settings of a simulator without budget and n, by their names in a study file."""
    settings: dict[str, Any] = {"grid.independent_n": simulator.horizon is not None}
    for table, part in simulator.parts().items():
        kept = {"kind", *(column.name for column in part.setting_columns())}
        for name, value in part.model_dump(mode="json", include=kept).items():
            if value is not None and name not in BUDGET:
                settings[f"{table}.{name}"] = value
    return settings


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in an order that does not depend on theirs; None is no value."""
    texts = {canonical_json(value): value for value in values if value is not None}
    return [texts[text] for text in sorted(texts)]


def refused(store: RunStore, changes: Sequence[tuple[str, list[Any], list[Any]]]) -> InputError:
    """The refusal of a study, with the difference."""
    lines = []
    for name, before, after in changes:
        if before != after:
            lines += [f"  - {name} = {shown(before)}", f"  + {name} = {shown(after)}"]
    changed = [change for change in changes if change[1] != change[2]]
    return InputError(
        ", ".join(name for name, _, _ in changed),
        "; ".join(shown(after) for _, _, after in changed),
        f"{'; '.join(shown(had) for _, had, _ in changed)}, with which the rows in {store.root} were made",
        "Choose another `out`, keep the old values beside the new ones, or start over with "
        "`fresh`, which moves the old run aside.\n" + "\n".join(lines),
    )


def shown(values: list[Any]) -> str:
    """Values as a study file has them, few of many."""
    texts = [canonical_json(value) for value in values[:6]] + ["..."] * (len(values) > 6)
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]" if texts else "absent"


def declare_columns(store: RunStore, study: Study, parts: Sequence[Part]) -> None:
    """Give the run the columns that the components of the study declare beside those of every run.

    Raises
    ------
    InputError
        If two components declare a column differently, or one takes a name that has another meaning.
    """
    plans = study.plans()
    methods = dict.fromkeys(cell.method for plan in plans for cell in plan.cells)
    try:
        measures = (column for plan in plans for column in plan.simulator.measures())
        for dataset, columns in ((store.replicates, columns_of(methods)), (store.trajectories, measures)):
            dataset.declare(columns, [part for part in parts if part.kind is dataset.kind])
    except ValueError as error:
        raise InputError(
            "method",
            ", ".join(dict.fromkeys(method.kind for method in methods)),
            "columns that agree",
            str(error),
        ) from None
    taken = names_of_summary(plan.simulator for plan in plans)
    for column in store.replicates.further:
        for name in {column.name, *(summary.name for summary in column.summaries)} & taken:
            raise InputError(
                f"column {name}", column.meaning, "a name that no other column of the summary has"
            )


def gaps(store: RunStore, plan: Plan, replicates: int) -> list[Missing]:
    """Rows that a path lacks, trajectories included: each replicate once where it lacks both."""
    found = cell_gaps(store, plan, replicates)
    if not plan.checkpoints:
        return found
    stored = store.trajectories.finished(plan.simulator.key)
    missing = subtract(0, replicates, stored.get(cell_id({"checkpoints": plan.checkpoints}), []))
    whole = [m for m in found if m.cells[0].runs == 1]
    together = [m for m in whole if intersect(missing, m.first, m.last) == [(m.first, m.last)]]
    alone = missing
    for m in together:
        alone = [part for a, b in alone for part in subtract(a, b, [(m.first, m.last)])]
    return [
        *(replace(m, checkpoints=plan.checkpoints) if m in together else m for m in found),
        *(Missing(plan.simulator, a, b, (), (), plan.checkpoints) for a, b in alone),
    ]


def cell_gaps(store: RunStore, plan: Plan, replicates: int) -> list[Missing]:
    """Rows that a path lacks: each once, with all the cells that it lacks."""
    finished = store.replicates.finished(plan.simulator.key)
    found: list[Missing] = []
    for runs, cells in by_runs(plan.cells).items():
        stored = {cell: finished.get(cell_id(cell.columns()), []) for cell in cells}
        found += row_gaps(plan, stored, replicates // runs)
    return found


def row_gaps(plan: Plan, stored: Mapping[Cell, Ranges], rows: int) -> list[Missing]:
    """The rows that cells of one number of runs lack, of those that they have ``stored``."""
    ends = {min(end, rows) for ranges in stored.values() for span in ranges for end in span}
    found: list[Missing] = []
    for first, last in pairwise(sorted({0, rows, *ends})):
        cells = tuple(cell for cell, ranges in stored.items() if subtract(first, last, ranges))
        if not cells:
            continue
        witnesses = witness(plan, cells, stored, first, last)
        before = found[-1] if found else None
        if (
            before is not None
            and before.last == first
            and (before.cells, before.witnesses) == (cells, witnesses)
        ):
            found[-1] = Missing(plan.simulator, before.first, last, cells, witnesses)
        else:
            found.append(Missing(plan.simulator, first, last, cells, witnesses))
    return found


def witness(
    plan: Plan,
    missing: Sequence[Cell],
    stored: Mapping[Cell, Ranges],
    first: int,
    last: int,
) -> tuple[Cell, ...]:
    """A cell of the study that is stored for these replicates and cheap to compute beside others.

    The largest n that does not make the path longer, since its estimate depends on all steps before.
    """
    longest = max(cell.n for cell in missing)
    usable = [
        cell for cell, ranges in stored.items() if cell.n <= longest and not subtract(first, last, ranges)
    ]

    def cost(cell: Cell) -> tuple[float, ...]:
        found = plan.simulator.cost(plan.simulator.needs((cell,)), 1)
        return -cell.n, found.seconds, found.bytes

    return (min(usable, key=cost),) if usable else ()


def planned(study: Study, missing: Sequence[Missing]) -> list[Planned]:
    """Rows that exist and rows to compute, path by path."""
    by_key: dict[str, list[Missing]] = {}
    for gap in missing:
        by_key.setdefault(gap.simulator.key, []).append(gap)
    columns = [plan.simulator.columns() for plan in study.plans()]
    varying: list[str] = []  # each only if it tells paths apart that the ones before do not
    for name in dict.fromkeys(name for c in columns for name in c):
        apart = {tuple(str(c.get(k)) for k in (*varying, name)) for c in columns}
        if len(apart) > len({tuple(str(c.get(k)) for k in varying) for c in columns}):
            varying.append(name)
    result = []
    for plan, values in zip(study.plans(), columns, strict=True):
        gaps_here = by_key.get(plan.simulator.key, [])
        d = plan.simulator.dimension
        computed = sum(
            (gap.last - gap.first) * (d * len(gap.cells) + len(gap.checkpoints)) for gap in gaps_here
        )
        rows = sum(study.replicates // cell.runs for cell in plan.cells)
        total = d * rows + study.replicates * len(plan.checkpoints)
        settings = [f"{name}={values[name]}" for name in varying if values.get(name) is not None]
        result.append(
            Planned(
                path=f"p{plan.simulator.key}",
                settings=" ".join(settings),
                reused=total - computed,
                computed=computed,
                ranges=[(gap.first, gap.last, len(gap.cells)) for gap in gaps_here],
            )
        )
    return result
