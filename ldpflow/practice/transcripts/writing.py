"""Transcript of a simulated replicate: the questions to its users, and their reports.

Random streams and kernel functions are those of a sweep, and every report is kept. So theta has the bits of
the simulated path, and `analyse` on the file gives the rows of the sweep, bit for bit. The reports of a
protocol without a path have the counts of the sweep.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.protocols import OneShot
from ldpflow.components.protocols.collections import Histograms, Searches
from ldpflow.engine.replay import key_of, planned_path
from ldpflow.errors import InputError
from ldpflow.practice.transcripts.collection import ALGORITHMS_READ, OF_THE_USERS, analysis_settings
from ldpflow.practice.transcripts.fold import answers_of
from ldpflow.simulators.counts import Counts
from ldpflow.simulators.reports import reports_of
from ldpflow.store.run_store import RunStore
from ldpflow.study.reading import toml_text
from ldpflow.study.stored import study_to_run

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def check_path(path: Any) -> None:
    algorithm, mechanism = path.algorithm, path.mechanism
    central = getattr(algorithm, "noise", "record") != "record"
    if algorithm.kind not in ALGORITHMS_READ or algorithm.projects() or central:
        allowed = f"a path of {' or '.join(ALGORITHMS_READ)}, neither projected nor central"
        raise InputError("path", algorithm.kind, allowed)
    if getattr(mechanism, "varies", bool)() or getattr(mechanism, "answers", 1) > 1:
        raise InputError("path", mechanism.kind, "one report of a user, and one budget for all users")


def path_settings(path: Any, seed: int, replicate: int) -> dict[str, Any]:
    found = analysis_settings(path.parts())
    if isinstance(path.mechanism, RandomizedResponse):
        # Leave out the liars and missing answers of simulated devices.
        found["mechanism"] = {"kind": "randomized_response", "epsilon": path.mechanism.epsilon}
    found["mechanism"].pop("sampling", None)
    size = path.algorithm.records_per_step()
    if found["algorithm"].pop("rounds", None) or path.algorithm.kind == "minibatch_sgd":
        found["algorithm"]["batch_size"] = size
    return {
        "seed": seed,
        "replicate": replicate,
        "path": path.key,
        "origin": tuple(map(float, path.problem.truth())),
        **found,
    }


def table_of(path: Any, first: int, thetas: Floats, gradients: Floats) -> pa.Table:
    """Table of round, theta and report. Several coordinates have a column of theta (and gradient) each."""
    d = thetas.shape[1]
    size = path.algorithm.records_per_step()
    rounds = 1 + (np.arange(first - 1, first - 1 + len(thetas)) // size)
    columns: dict[str, Any] = {"round": pa.array(rounds)}
    names = [""] if d == 1 else [f"_{j}" for j in range(d)]
    columns |= {f"theta{name}": pa.array(thetas[:, j]) for j, name in enumerate(names)}
    if (answers := answers_of(path)) is None:
        columns |= {f"report{name}": pa.array(gradients[:, j]) for j, name in enumerate(names)}
    else:
        # The number of a cell counts the thetas below it. A bit is 1 if the gradient is that of report 1.
        columns["report"] = pa.array((gradients == answers[-1]).sum(axis=1).astype(np.int8))
    return pa.table(columns)


SettingsAndTables = tuple[dict[str, Any], Iterator[pa.Table]]


def transcript_of_path(path: Any, seed: int, replicate: int, n: int) -> SettingsAndTables:
    """Simulate a replicate of a path again. The last of n users are left out if they do not fill a round."""
    check_path(path)
    users = int(path.steps(n) * path.algorithm.records_per_step())
    tables = (table_of(path, *part) for part in reports_of(path, seed, replicate, users))
    return {"n": n, **path_settings(path, seed, replicate)}, tables


MOST_BITS = 2**28
"""Most reports, or bits of reports, in a transcript of a protocol."""


def transcript_of_counts(simulator: Counts, seed: int, replicate: int, n: int) -> SettingsAndTables:
    """Simulate a replicate of a protocol again, and draw reports with its counts.

    A sweep simulates counts alone. So the rows are put in random order, for ``rounds`` within each round. The
    bits of unary encoding are drawn independently of each other, given their counts.
    """
    protocol = simulator.protocol
    if protocol.answers > 1:
        raise InputError("path", protocol.kind, "one report of a user, answers = 1")
    settings = protocol.model_dump(exclude_none=True, exclude={*OF_THE_USERS, "scale_guess", "liars_push"})
    bits = n
    if isinstance(protocol, OneShot):
        settings["k"] = protocol.bins(n)
        bits *= max(protocol.widths(settings["k"]), default=1)
    if bits > MOST_BITS:
        raise InputError("n", f"{bits:,} reports or bits", f"at most {MOST_BITS:,} in a transcript")
    found = simulator.run(seed, [replicate], simulator.needs()).found
    make: Any = table_of_rounds if isinstance(found, Searches) else table_of_questions
    table = make(found, np.random.default_rng([seed, replicate]))
    own = {"n": table.num_rows, "path": simulator.key, "protocol": settings}
    return own | analysis_settings({"problem": simulator.problem}), iter([table])


def table_of_rounds(run: Searches, rng: np.random.Generator) -> pa.Table:
    parts = []
    for turn, (x, asked, ones) in enumerate(run.last.transpose(0, 2, 1), start=1):
        question, report = rng.permutation(expand_bits(asked, ones)).T
        columns = {"round": np.full(len(report), turn), "question": question, "theta": x[question]}
        parts.append(pa.table(columns | {"report": report.astype(np.int8)}))
    return pa.concat_tables(parts)


def table_of_questions(run: Histograms, rng: np.random.Generator) -> pa.Table:
    protocol, k, asked = run.protocol, len(run.edges) - 1, run.asked.astype(np.int64)
    ones = ((run.found + run.asked) / 2.0 if protocol.signs else run.found).astype(np.int64)
    if protocol.reports(k) > 2:
        return pa.table({"report": rng.permutation(np.repeat(np.arange(len(ones)), ones))})
    if not protocol.widths(k):
        question, report = rng.permutation(expand_bits(asked, ones)).T
        return pa.table({"question": question + 1, "report": report.astype(np.int8)})
    parts: list[pa.Table] = []
    first = 0
    for level, width in enumerate(protocol.widths(k), start=1):
        bits = np.zeros((asked[first], width), np.uint8)
        for j in range(width):
            bits[rng.permutation(len(bits))[: ones[first + j]], j] = 1
        texts = [row.tobytes().decode() for row in bits + ord("0")]
        columns = {"question": np.full(len(texts), level), "report": pa.array(texts, pa.string())}
        parts.append(pa.table(columns))
        first += width
    table = pa.concat_tables(parts)
    table = table.take(rng.permutation(table.num_rows))
    return table if protocol.public_coin else table.select(["report"])


def expand_bits(asked: Any, ones: Any) -> Integers:
    """Question (from 0) and bit of every report, shape (reports, 2), from answers and ones by question."""
    asked, ones = (np.nan_to_num(counts).astype(np.int64) for counts in (asked, ones))
    questions = np.repeat(np.tile(np.arange(len(asked)), 2), np.concatenate([ones, asked - ones]))
    bits = np.repeat([1, 0], [ones.sum(), (asked - ones).sum()])
    return np.stack([questions, bits], axis=1)


def write_transcript(
    simulator: Any,
    seed: int,
    replicate: int,
    n: int,
    file: str | os.PathLike[str],
    wishes: Mapping[str, Any] | None = None,
) -> int:
    """Write the transcript of a replicate, in Parquet or CSV by the file's name. Return the number of rows.

    Settings of a CSV file are written to FILE.toml. After an error FILE is as it was, but FILE.toml may be
    new. ``wishes``: settings of what `analyse` computes by default.
    """
    import pyarrow.csv
    import pyarrow.parquet as pq

    make = transcript_of_counts if isinstance(simulator, Counts) else transcript_of_path
    settings, tables = make(simulator, seed, replicate, n)
    text = toml_text(settings | dict(wishes or {}))
    first = next(tables)
    target, rows = FilePath(file), 0
    if not target.name:
        raise InputError("output", str(file), "the name of a file")
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    parquet = target.suffix.lower() in (".parquet", ".pq")
    try:
        with (
            pq.ParquetWriter(temporary, first.schema, write_page_checksum=True)
            if parquet
            else pyarrow.csv.CSVWriter(temporary, first.schema)
        ) as writer:
            for table in chain([first], tables):
                writer.write_table(table)
                rows += table.num_rows
            if parquet:
                writer.add_key_value_metadata({"ldpflow": text})
            else:
                target.with_name(f"{target.name}.toml").write_text(text, encoding="utf-8")
        os.replace(temporary, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("output", str(file), "a file that can be written", f"{reason}.") from None
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def stored_transcript(
    run: str | os.PathLike[str], path_key: str | None, replicate: int, file: str | os.PathLike[str]
) -> int:
    """Write the transcript of a stored replicate at the largest n, as :func:`write_transcript` does.

    ``path_key`` is that of :func:`ldpflow.engine.replay.replay`.
    """
    store = RunStore(run)
    with store.named_errors():
        study = study_to_run(store)
    plan, _ = planned_path(study, key_of(store, path_key, study, ()))
    assert plan is not None  # its key is one of the study
    if not plan.cells:
        raise InputError("path", path_key, "a path with cells")
    methods = dict.fromkeys(
        cell.method
        for cell in plan.cells
        if cell.method.kind != "PB" and not cell.method.reads_truth() and cell.method.runs(cell.level) == 1
    )
    wishes: dict[str, Any] = {"level": tuple(dict.fromkeys(cell.level for cell in plan.cells))}
    if methods:
        wishes["method"] = [method.model_dump(exclude_none=True) for method in methods]
    if study.collection is not None:
        wishes["collection"] = study.collection.model_dump(exclude_defaults=True)
    users = max(cell.n for cell in plan.cells)
    return write_transcript(plan.simulator, study.seed, replicate, users, file, wishes)
