"""Write the rows as text and as JSON."""

from __future__ import annotations

import importlib.metadata
import json
import os
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.measurement import Measurement
from ldpflow.store.provenance import machine, versions

WIDTH = 100


def context(quick: bool, note: str | None) -> dict[str, Any]:
    """Date, machine and versions of a measurement."""
    import llvmlite.binding

    found = versions()
    for name in ("jax", "jaxlib"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    where = machine()
    # Documents quote the JSON, so the name of the host is left out.
    where.pop("host", None)
    features = llvmlite.binding.get_host_cpu_features()
    vectors = [f for f in ("avx2", "fma", "avx512f", "avx512dq") if features.get(f)]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "note": note,
        "versions": found,
        "machine": where,
        "llvm_cpu": llvmlite.binding.get_host_cpu_name(),
        "vector_features": vectors,
        "load_average": [round(x, 2) for x in os.getloadavg()],
    }


def heading(where: dict[str, Any]) -> str:
    """Lines above the table: date, machine, versions and note."""
    versions_line = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    place = where["machine"]
    lines = [
        f"{where['date']}  {'quick look' if where['quick'] else 'full run'}",
        f"{place['processor']} ({where['llvm_cpu']}; {' '.join(where['vector_features'])}), "
        f"{place['cores_usable']} cores, load {where['load_average'][0]}",
        *textwrap.wrap(versions_line, WIDTH),
    ]
    if where["note"]:
        lines += textwrap.wrap(f"note: {where['note']}", WIDTH)
    return "\n".join(lines)


def line(row: Measurement) -> str:
    """Lines of a row: verdict, value, quartiles and target, then the comparison and its times."""
    shown = row.mapping()
    if row.value is None:
        return f"{'FAILED' if row.failed else 'skipped':8} {row.name}: {row.skipped}"
    verdict = {True: "met", False: "MISSED", None: "info"}[row.met]
    text = f"{verdict:8} {row.name:26} {shown['value']:>9g} {row.unit}"
    if len(row.values) > 1:
        low, high = shown["quartiles"]
        text += f"  [{low:g}, {high:g}]"
    if row.target is not None:
        sign = ">=" if row.better == "higher" else "<="
        text += f"  target {sign} {row.target:g}"
    details = ", ".join(
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in shown["details"].items()
    )
    below = [row.what] + ([details] if details else [])
    return "\n".join([text, *textwrap.wrap("; ".join(below), WIDTH, **INDENT)])


INDENT: dict[str, Any] = {"initial_indent": " " * 9, "subsequent_indent": " " * 9}


def json_text(where: dict[str, Any], rows: Sequence[Measurement]) -> str:
    """JSON of all rows, as benchmarks/history/ keeps it."""
    return json.dumps(where | {"rows": [row.mapping() for row in rows]}, indent=2) + "\n"
