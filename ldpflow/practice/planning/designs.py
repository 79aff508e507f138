"""Design of a collection: the study file that later commands read.

The file is an ordinary study with one path or protocol, one n, one level and one interval method. Its c,
theta0 or edges of bins may be functions of a pilot's values, and every user receives them. A public file
holds no other fact about a pilot. The law in it is ``unknown``, and it cannot be simulated.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ldpflow.components.problems.quantile import UNKNOWN
from ldpflow.errors import InputError
from ldpflow.practice.transcripts.collection import OF_QUANTILES, table_of
from ldpflow.results.arena import probability_to_hold
from ldpflow.settings import Settings
from ldpflow.study.entry import PILOT_VALUES
from ldpflow.study.reading import CollectionFacts, toml_text


def enough_replicates(level: float) -> int:
    """Fewest replicates, in steps of 512, that show with probability .88 that an interval holds its level."""
    return next(n for n in itertools.count(512, 512) if probability_to_hold(level, n) >= 0.88)


@dataclass(frozen=True)
class Design:
    """Components of one collection by table of a study file, and the number of users who answer.

    ``reports`` is the number of reports of each user in all collections. ``of_pilot`` names the settings that
    are functions of a pilot. ``taus`` has the levels of the quantiles, if they are not those of the problem.
    """

    parts: Mapping[str, Settings] = field(repr=False)  # hidden, since they have a pilot's values
    n: int
    level: float
    reports: int = 1
    of_pilot: tuple[str, ...] = ()
    taus: Sequence[float] = ()

    def text(self, public: bool, unit: str | None) -> str:
        """Text of the study file. If ``public``, its only facts about the pilot are c, theta0 and edges."""
        tables = {name: table_of(part) for name, part in self.parts.items()}
        problem = tables["problem"]
        if self.taus:
            problem["tau"] = list(self.taus)
        if public:
            kept = {name: problem[name] for name in OF_QUANTILES if name in problem}
            tables["problem"] = kept | {"law": UNKNOWN}
        comments = ["Design of a collection, written by ldpflow plan."]
        if problem.get("law") == ["empirical"] and self.of_pilot:
            comments.append(f"Functions of the pilot that every user receives: {', '.join(self.of_pilot)}.")
            if "edges" in self.of_pilot:
                comments.append("The edges are quantiles of the pilot; some are values of its records.")
        if public:
            comments.append("The law of the values is left out: sweep cannot simulate this file.")
        elif PILOT_VALUES in problem:
            comments.append(f"{PILOT_VALUES} has values of the pilot: keep this file as private as it.")
        method = tables.pop("method")
        settings = {
            "seed": 1,
            "replicates": enough_replicates(self.level),
            **tables,
            "grid": {"n": self.n, "level": self.level},
            "method": [method],
        }
        facts = CollectionFacts(unit=unit, reports=self.reports).model_dump(exclude_defaults=True)
        if facts:
            settings["collection"] = facts
        return "".join(f"# {line}\n" for line in comments) + toml_text(settings)


def check_new(file: str | Path, force: bool) -> None:
    if not Path(file).name or not Path(file).parent.is_dir():
        raise InputError("output", str(file), "a file in a folder that exists")
    if os.path.lexists(file) and not force:
        raise InputError("output", str(file), "a new file", "It exists; `force` writes over it.")


def write_files(texts: Mapping[Path, str], force: bool) -> None:
    """Write all files, or none if one of them exists and ``force`` is not set."""
    for file in texts:
        check_new(file, force)
    for file, text in texts.items():
        try:
            with open(file, "w" if force else "x", encoding="utf-8") as target:
                target.write(text)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError("output", str(file), "a file that can be written", f"{reason}.") from None
