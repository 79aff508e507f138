"""Run benchmarks: ``python -m benchmarks [--quick] [--json FILE] [--only NAME ...]``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import (
    agreement_rows,
    cost_rows,
    engine_rows,
    information,
    kernel_rows,
    pilot_rows,
    protocol_rows,
    ray_rows,
    report,
    sampler_rows,
    start_row,
    sweep_rows,
)
from benchmarks.effort import FULL, QUICK, Effort
from benchmarks.measurement import Measurement, Skipped

# Names that --only accepts, in the order of the table. A group may make several rows.
GROUPS: dict[str, Callable[[Effort], list[Measurement]]] = {
    "quantile": kernel_rows.quantile_row,
    "private-bit": kernel_rows.private_bit,
    "quantile-sn": kernel_rows.quantile_sn,
    "regression": kernel_rows.regression_row,
    "transcript": cost_rows.transcript_row,
    "momentum": cost_rows.momentum_row,
    "adaptive-clipping": cost_rows.clipping_row,
    "pilot": pilot_rows.pilot_rows,
    "floor": cost_rows.floor_rows,
    "samplers": sampler_rows.sampler_rows,
    "sweep": sweep_rows.sweep_row,
    "arena": cost_rows.arena_row,
    "protocols": protocol_rows.protocol_rows,
    "bootstrap": sweep_rows.bootstrap_row,
    "bootstrap-share": sweep_rows.bootstrap_share_row,
    "engine": engine_rows.engine_rows,
    "start": start_row.start_row,
    "memory": ray_rows.memory_row,
    "ray-efficiency": ray_rows.efficiency_row,
    "ldpflow": information.lockstep_row,
    "numpy": information.numpy_row,
    "jax": information.jax_row,
    "r": information.r_row,
    "sgdinference": information.sgdinference_row,
    "random-scaling": agreement_rows.random_scaling_row,
}


def measure(name: str, effort: Effort) -> list[Measurement]:
    """Measure the rows of a group. If this fails, return one row with the reason."""
    try:
        return GROUPS[name](effort)
    except Skipped as reason:
        return [Measurement(name, name, skipped=str(reason))]
    except Exception as error:
        # After a failed row the other rows are still measured: they take minutes.
        return [Measurement(name, name, skipped=f"{type(error).__name__}: {error}", failed=True)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the rows, print them, and write them as JSON. Return 1 if a row failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes: minutes less, noisier")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers as JSON too")
    parser.add_argument("--only", nargs="+", choices=GROUPS, metavar="NAME", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--note", help="note to store with the numbers, such as what else was running")
    chosen = parser.parse_args(arguments)
    effort = QUICK if chosen.quick else FULL
    where = report.context(chosen.quick, chosen.note)
    print(report.heading(where), end="\n\n", flush=True)
    rows = []
    for name in chosen.only or GROUPS:
        for row in measure(name, effort):
            print(report.line(row), flush=True)
            rows.append(row)
    if chosen.json is not None:
        chosen.json.write_text(report.json_text(where, rows), encoding="utf-8")
    return int(any(row.failed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
