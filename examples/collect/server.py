"""A collector of private reports: any protocol of ldpflow, one SQLite file.

    python server.py --design designs/haar.toml --folder run
    python server.py --design designs/haar.toml --folder run --export reports.csv

``POST /ask`` returns a question for a user, and ``POST /report`` takes the report. Reports that arrive
together are committed together. The server asks as many users as a round still needs. A user who does not
answer within 30 seconds is replaced. Users who are not needed yet are asked to come back.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import time
from pathlib import Path
from typing import Any

from collection import Collection, Refused

from ldpflow.study.reading import toml_text

LEND_SECONDS = 30.0
TOGETHER = 0.002
"""Seconds that a report waits for further reports before all are committed."""

LARGEST_BODY = 2**16


class Server:
    """HTTP server of a collection."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.waiting: list[tuple[tuple[Any, Any, Any], asyncio.Future[Any]]] = []
        self.lent: dict[str, tuple[int, int, float]] = {}  # user: round, question, end of the time to answer

    def ask(self) -> tuple[int, dict[str, Any]]:
        state, now = self.collection.state, time.monotonic()
        self.lent = {u: lent for u, lent in self.lent.items() if lent[0] == state.round and lent[2] > now}
        free = list(state.needed)
        for _, place, _ in self.lent.values():
            free[place] -= 1
        if not any(state.needed):
            return 410, {"error": "the collection is complete"}
        for _ in range(20):
            asked = self.collection.question()
            place = state.place(asked["ticket"]["question"])
            if free[place] > 0:
                self.lent[asked["ticket"]["user"]] = (state.round, place, now + LEND_SECONDS)
                return 200, asked
        return 503, {"error": "enough users are answering: come back"}

    async def report(self, said: Any) -> tuple[int, dict[str, Any]]:
        if not isinstance(said, dict) or set(said) != {"ticket", "mac", "report"}:
            return 400, {"error": "expected ticket, mac and report"}
        if not self.waiting:
            asyncio.get_running_loop().call_later(TOGETHER, self.commit)
        future = asyncio.get_running_loop().create_future()
        self.waiting.append(((said["ticket"], said["mac"], said["report"]), future))
        found = await future
        if isinstance(found, sqlite3.Error):
            return 503, {"error": f"it cannot be stored now: {found}"}
        if isinstance(found, Refused):
            return 409, {"error": str(found)}
        return 200, {"counted": True, "new": found}

    def commit(self) -> None:
        taken, self.waiting = self.waiting, []
        try:
            found: list[Any] = list(self.collection.add([report for report, _ in taken]))
        except sqlite3.Error as error:
            found = [error] * len(taken)
        for ((ticket, _, _), future), result in zip(taken, found, strict=True):
            if isinstance(ticket, dict) and not isinstance(result, sqlite3.Error):
                self.lent.pop(str(ticket.get("user")), None)
            if not future.done():
                future.set_result(result)

    async def answer(self, line: str, body: bytes) -> tuple[int, dict[str, Any]]:
        path = line.split(" ")[1] if line.count(" ") == 2 else ""
        if path == "/state":
            return 200, {"reports": self.collection.count, "round": self.collection.state.round}
        if path == "/ask":
            return self.ask()
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            return 400, {"error": "expected JSON"}
        return await self.report(said) if path == "/report" else (404, {"error": "not here"})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it closes. The user's address is not stored."""
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                line, *headers = head.split("\r\n")
                fields = {
                    name.lower(): value.strip() for name, _, value in (h.partition(":") for h in headers)
                }
                size = int(fields.get("content-length", "0"))
                if not 0 <= size <= LARGEST_BODY:
                    break
                code, said = await self.answer(line, await reader.readexactly(size))
                text = json.dumps(said).encode()
                writer.write(f"HTTP/1.1 {code} -\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
            pass
        writer.close()


async def run(collection: Collection, port: int) -> None:
    server = await asyncio.start_server(Server(collection).serve, "127.0.0.1", port)
    port = server.sockets[0].getsockname()[1]
    print(f"collecting on http://127.0.0.1:{port}, {collection.count} reports so far", flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve until the process is stopped, or export the collected reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--design", type=Path, required=True, help="settings as of ldpflow analyse, with n")
    parser.add_argument("--folder", type=Path, required=True, help="where the reports are kept")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--export", type=Path, metavar="FILE.csv", help="write the reports, and FILE.csv.toml"
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    collection = Collection(arguments.folder / "reports.sqlite", arguments.design)
    try:
        if arguments.export is None:
            asyncio.run(run(collection, arguments.port))
        else:
            reports = collection.export(arguments.export)
            settings = toml_text(collection.settings | {"n": reports})
            Path(f"{arguments.export}.toml").write_text(settings, encoding="utf-8")
            rest = collection.count - reports
            left = f", {rest} of an unfinished step left out" if rest else ""
            print(f"{arguments.export}: {reports:,} reports{left}")
    except KeyboardInterrupt:
        pass
    collection.close()


if __name__ == "__main__":
    main()
