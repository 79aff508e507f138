"""The collector's state: an SQLite file of reports, and the current questions, which follow from them.

A row has a number, the user's ticket, the round, the question and the report. It is committed to the disk
before a device gets the answer that the report counts. After a crash the rows are read again, so no report is
lost or counted twice. SQLite locks the file while a collector uses it.
"""

from __future__ import annotations

import csv
import hmac
import json
import math
import re
import secrets
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

from ldpflow import client
from ldpflow.components.protocols.collections import fold_rounds
from ldpflow.practice.transcripts.collection import read_collection, read_settings


class Refused(Exception):
    """A report that does not count: its ticket is forged, or its question is no longer asked."""


class Questions:
    """Present questions. ``needed`` has the number of reports that each question still needs."""

    round = 1

    def draw_question(self) -> int | None:
        return None

    def place(self, question: int | None) -> int:
        return 0


class OneShot(Questions):
    """One round. With a public coin every user draws a question, otherwise there is one question."""

    def __init__(self, design: Any) -> None:
        self.protocol = design.protocol
        self.needed = [design.n]

    def draw_question(self) -> int | None:
        """Question of a made-up user, whose report is not used."""
        if not self.protocol.public_coin:
            return None
        low, high = self.protocol.range
        made: Any = client.REPORTS[self.protocol.kind](low, 1.0, low, high, self.protocol.k)
        return int(made[0])

    def parameters(self, question: int | None) -> dict[str, Any]:
        low, high = self.protocol.range
        public = {"epsilon": self.protocol.epsilon, "low": low, "high": high, "k": self.protocol.k}
        return public if question is None else public | {"question": question}

    def column(self, question: int | None) -> dict[str, Any]:
        return {} if question is None else {"question": question}

    def valid(self, question: int | None, report: Any) -> bool:
        k = self.protocol.k
        if widths := self.protocol.widths(k):
            width = widths[0 if question is None else question - 1]
            return isinstance(report, str) and re.fullmatch(f"[01]{{{width}}}", report) is not None
        return type(report) is int and 0 <= report < self.protocol.reports(k)

    def take(self, question: int | None, report: Any) -> None:
        self.needed[0] -= 1


class Rounds(Questions):
    """Rounds of thresholds. The thresholds of a round follow from the counts of earlier rounds."""

    def __init__(self, design: Any) -> None:
        self.protocol, self.tau, self.round = design.protocol, design.taus[0], 0
        self.asked = self.protocol.asked(design.n, self.tau)
        self.counts = np.zeros((self.protocol.rounds, 8, 2))
        self.start_round()

    def start_round(self) -> None:
        self.thresholds = fold_rounds(self.protocol, self.tau, self.counts).last[self.round, :, 0]
        self.needed = [self.asked[self.round]] * self.protocol.thresholds()[self.round]
        self.round += 1

    def draw_question(self) -> int:
        return secrets.choice([j for j, needed in enumerate(self.needed) if needed > 0])

    def place(self, question: int) -> int:
        return question

    def parameters(self, question: int) -> dict[str, Any]:
        return {"theta": float(self.thresholds[question]), "epsilon": self.protocol.epsilon}

    def column(self, question: int) -> dict[str, Any]:
        return {"round": self.round, "question": question, "theta": float(self.thresholds[question])}

    def valid(self, question: int, report: Any) -> bool:
        return type(report) is int and report in (0, 1)

    def take(self, question: int, report: int) -> None:
        self.counts[self.round - 1, question] += (1, report)
        self.needed[question] -= 1
        if not any(self.needed) and self.round < self.protocol.rounds:
            self.start_round()


class Descent(Questions):
    """Stochastic gradient descent: theta moves after every ``batch_size`` reports."""

    def __init__(self, design: Any) -> None:
        self.design, self.mechanism, self.algorithm = design, design.mechanism, design.algorithm
        self.size, self.steps = design.batch_size, design.n // design.batch_size
        start = design.start * (len(design.taus) // len(design.start))
        self.thetas, self.sums, self.needed = list(start), [0.0] * len(start), [self.size]

    def parameters(self, question: None) -> dict[str, Any]:
        kind, tau = self.mechanism.kind, self.design.taus[0]
        if kind == "cells":
            return {"thetas": self.thetas, "epsilon": self.mechanism.epsilon}
        public = {"theta": self.thetas[0]}
        if kind == "clipped_gaussian":
            return public | {"tau": tau, "mu": self.mechanism.mu, "clip": self.mechanism.clip}
        public["epsilon"] = self.mechanism.epsilon
        return public | {"tau": tau, "clip": max(tau, 1.0 - tau)} if kind == "laplace" else public

    def column(self, question: None) -> dict[str, Any]:
        if self.mechanism.kind != "cells":
            return {"round": self.round, "theta": self.thetas[0]}
        return {"round": self.round, **{f"theta_{q}": theta for q, theta in enumerate(self.thetas)}}

    def valid(self, question: None, report: Any) -> bool:
        if self.mechanism.kind in ("randomized_response", "cells"):
            return type(report) is int and 0 <= report <= len(self.thetas)
        return isinstance(report, float) and math.isfinite(report)

    def gradient(self, report: Any) -> list[float]:
        """Unbiased estimate of F(theta) - tau from a report, for each quantile."""
        if self.mechanism.kind in ("laplace", "clipped_gaussian"):
            return [report]
        # The bit 1 of randomised response says that the value lies in cell 0.
        cell = 1 - report if self.mechanism.kind == "randomized_response" else report
        odds = math.exp(self.mechanism.epsilon)
        keep, other = (weight / (odds + len(self.thetas)) for weight in (odds, 1.0))
        taus = enumerate(self.design.taus)
        return [((cell <= q) - (q + 1) * other) / (keep - other) - tau for q, tau in taus]

    def take(self, question: None, report: Any) -> None:
        self.sums = [a + b for a, b in zip(self.sums, self.gradient(report), strict=True)]
        self.needed[0] -= 1
        if self.needed[0] == 0:
            eta = self.algorithm.step_constant() * self.round ** -self.algorithm.step_exponent()
            factors = self.algorithm.step_factors() or (1.0,) * len(self.thetas)
            moves = zip(self.thetas, factors, self.sums, strict=True)
            self.thetas = sorted(theta - eta * factor * total / self.size for theta, factor, total in moves)
            self.sums = [0.0] * len(factors)
            if self.round < self.steps:
                self.round, self.needed = self.round + 1, [self.size]


FUNCTIONS = {"randomized_response": "rr_sgd", "clipped_gaussian": "gaussian"}


class Collection:
    """A collection: its file, and the present questions.

    Parameters
    ----------
    file : path
        SQLite file. It is made if it does not exist.
    design : path
        TOML file with the settings of ``ldpflow analyse`` and ``n``, the planned number of users.
    """

    def __init__(self, file: Path | str, design: Path | str) -> None:
        self.settings = read_settings(design)
        self.design = read_collection(self.settings)
        self.database = sqlite3.connect(file, timeout=1.0, isolation_level=None)
        try:
            self.database.executescript(
                "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                "CREATE TABLE IF NOT EXISTS design (settings TEXT, secret BLOB);"
                "CREATE TABLE IF NOT EXISTS reports (number INTEGER PRIMARY KEY, ticket TEXT UNIQUE, "
                "round INTEGER, question INTEGER, report TEXT) STRICT;"
            )
        except sqlite3.OperationalError as error:
            raise SystemExit(f"{file}: another collector uses this file ({error})") from None
        text = json.dumps(self.settings, sort_keys=True)
        stored = self.database.execute("SELECT settings, secret FROM design").fetchone()
        if stored is None:
            stored = (text, secrets.token_bytes(32))
            self.database.execute("INSERT INTO design VALUES (?, ?)", stored)
        if stored[0] != text:
            raise SystemExit(f"{file}: this collection was begun with another design")
        self.secret = stored[1]
        self.state = self.begin()
        self.count = 0
        for question, report in self.database.execute("SELECT question, report FROM reports ORDER BY number"):
            self.state.take(question, json.loads(report))
            self.count += 1

    def begin(self) -> OneShot | Rounds | Descent:
        if self.design.protocol is None:
            return Descent(self.design)
        return Rounds(self.design) if self.design.protocol.kind == "rounds" else OneShot(self.design)

    @property
    def function(self) -> str:
        """Name of the function of ldpflow.client that makes the reports."""
        kind = self.design.randomiser.kind
        return FUNCTIONS.get(kind, kind)

    def question(self) -> dict[str, Any]:
        """Question for one more user, with a signed ticket that names the question."""
        question = self.state.draw_question()
        asked = {"round": self.state.round, "question": question, "user": secrets.token_hex(16)}
        public = self.state.parameters(question)
        if self.design.jitter is not None:
            public["jitter"] = self.design.jitter
        if self.design.scale is not None:
            public["transform"] = self.design.scale
        return {"ticket": asked, "mac": self.mac(asked), "function": self.function, "parameters": public}

    def mac(self, ticket: dict[str, Any]) -> str:
        """Sign a ticket. The signature keeps users from choosing their question."""
        return hmac.digest(self.secret, json.dumps(ticket, sort_keys=True).encode(), "sha256").hex()

    def add(self, reports: list[tuple[Any, Any, Any]]) -> list[bool | Refused]:
        """Count reports (ticket, mac, report) in one transaction.

        Return for each report whether it is new, or why it does not count. A report that is sent twice counts
        once. When this function returns, the reports are on the disk.

        Raises
        ------
        sqlite3.OperationalError
            If the reports cannot be stored. Then none counts, and all may be sent again.
        """
        results: list[bool | Refused] = []
        accepted: list[tuple[Any, Any]] = []
        needed = list(self.state.needed)
        self.database.execute("BEGIN IMMEDIATE")
        try:
            for ticket, mac, report in reports:
                try:
                    results.append(self.insert(ticket, mac, report, needed, accepted))
                except Refused as refused:
                    results.append(refused)
            self.database.execute("COMMIT")
        except sqlite3.Error:
            if self.database.in_transaction:
                self.database.execute("ROLLBACK")
            raise
        for question, report in accepted:
            self.state.take(question, report)
        self.count += len(accepted)
        return results

    def insert(
        self, ticket: Any, mac: Any, report: Any, needed: list[int], accepted: list[tuple[Any, Any]]
    ) -> bool:
        if not isinstance(ticket, dict) or not hmac.compare_digest(str(mac), self.mac(ticket)):
            raise Refused("this ticket is not from here")
        found = self.database.execute("SELECT 1 FROM reports WHERE ticket = ?", (ticket["user"],)).fetchone()
        if found:
            return False
        question = ticket["question"]
        if not self.state.valid(question, report):
            raise Refused("this is no report of the protocol")
        if ticket["round"] != self.state.round or needed[self.state.place(question)] == 0:
            raise Refused("the question has changed; do not answer another")
        needed[self.state.place(question)] -= 1
        row = (ticket["user"], ticket["round"], question, json.dumps(report))
        self.database.execute("INSERT INTO reports VALUES (NULL, ?, ?, ?, ?)", row)
        accepted.append((question, report))
        return True

    def export(self, file: Path | str) -> int:
        """Write the CSV file that ``ldpflow analyse`` reads, and return the number of its reports.

        Reports of an unfinished step of gradient descent are left out.
        """
        state = self.begin()
        complete = self.count - self.count % self.design.batch_size
        query = "SELECT question, report, ticket FROM reports ORDER BY number LIMIT ?"
        with open(file, "w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out)
            for at, (question, text, user) in enumerate(self.database.execute(query, (complete,))):
                row = state.column(question) | {"report": json.loads(text), "user": user}
                if at == 0:
                    writer.writerow(row)
                writer.writerow(row.values())
                state.take(question, row["report"])
        return complete

    def close(self) -> None:
        self.database.close()
