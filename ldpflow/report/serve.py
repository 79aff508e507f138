"""The report of a run that is still going, served on this machine.

The page is made anew from the Parquet parts when they have changed; a browser asks every two
seconds, with the entity tag of what it has, and the answer is "not modified" in between.
"""

from __future__ import annotations

import hashlib
import html
import ipaddress
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ldpflow.errors import InputError
from ldpflow.report.page import report_html
from ldpflow.report.results import Results
from ldpflow.store import RunStore, UnreadablePart

__all__ = ["LivePage", "server"]

PATIENCE = 4.0  # a page is made anew at most a fifth of the time

IDLE_SECONDS = 10.0
"""Seconds that a connection may stay silent."""

MOST_CONNECTIONS = 32

WAITING = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2>"
    '<link rel=icon href="data:,"><title>{run}</title><body><main><p role=status>'
    "Nothing has finished in {run} yet; this page looks again every two seconds.</p></main>"
)


class LivePage:
    """The page of a run and its entity tag, made anew when the run's files have changed."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.lock = threading.Lock()
        self.state: str | None = None
        self.text = b""
        self.tag = ""
        self.not_before = 0.0

    def current(self) -> tuple[bytes, str]:
        """The page and its tag."""
        with self.lock:
            now = time.monotonic()
            if now >= self.not_before:
                state = self.look()
                if state != self.state:
                    self.text = self.make().encode()
                    self.tag = '"' + hashlib.sha256(self.text).hexdigest()[:16] + '"'
                    self.state = state
                    self.not_before = time.monotonic() + PATIENCE * (time.monotonic() - now)
            return self.text, self.tag

    def look(self) -> str:
        """Text that changes whenever a part, the study or a session does."""
        store = RunStore(self.run)
        bad: list[UnreadablePart] = []
        names = [part.name for dataset in store.datasets() for part in dataset.scan(damaged=bad)]
        names += [part.name for part in bad]
        others = map(store.read, ("study.toml", "provenance.json"))
        return "\n".join([*names, *(data.to_pybytes().decode() for data in others if data)])

    def make(self) -> str:
        """The page from the stored parts."""
        try:
            return report_html(Results.load(self.run, from_parts=True), live=True)
        except InputError:
            return WAITING.format(run=html.escape(self.run))


class Limited(ThreadingHTTPServer):
    """A server with a bounded number of threads; a connection beyond that is closed at once."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()


def server(
    run: str, host: str = "127.0.0.1", port: int = 8765, allow_remote: bool = False
) -> ThreadingHTTPServer:
    """A server of one page, ready for ``serve_forever``.

    Parameters
    ----------
    run : str
    host : str
        An address of this machine; others than loopback only with ``allow_remote``.
    port : int
        0 for any free one.
    allow_remote : bool
        Whether other machines may look; nothing is encrypted and there is no login.

    Raises
    ------
    InputError
        If the address is not allowed or cannot be used.
    """
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and not allow_remote:
        raise InputError("host", host, "127.0.0.1", "`allow_remote` lets other machines read the results.")
    page = LivePage(run)

    class Handler(BaseHTTPRequestHandler):
        timeout = IDLE_SECONDS  # a connection that says nothing is dropped

        def do_GET(self) -> None:
            name = self.headers.get("Host", "").rsplit(":", 1)[0].strip("[]")
            # A foreign web site may point its own name here, and read the answer: not under it.
            if not allow_remote and name not in ("127.0.0.1", "localhost", "::1", host):
                self.answer(HTTPStatus.FORBIDDEN, b"ask for 127.0.0.1\n")
                return
            if self.path.partition("?")[0] != "/":
                self.answer(HTTPStatus.NOT_FOUND, b"there is one page: /\n")
                return
            try:
                text, tag = page.current()
            except Exception as error:  # files change while they are read: the next request sees more
                self.answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{type(error).__name__}\n".encode())
                return
            if self.headers.get("If-None-Match") == tag:
                self.answer(HTTPStatus.NOT_MODIFIED, b"", tag)
            else:
                self.answer(HTTPStatus.OK, text, tag)

        def answer(self, status: HTTPStatus, body: bytes, tag: str = "") -> None:
            self.send_response(status)
            kind = "text/html" if status == HTTPStatus.OK else "text/plain"
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Cache-Control", "no-cache")
            self.send_header("X-Content-Type-Options", "nosniff")
            if tag:
                self.send_header("ETag", tag)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if status != HTTPStatus.NOT_MODIFIED:
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return None

    try:
        found = Limited((host, port), Handler)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("port", port, "a free port", f"{reason}.") from None
    return found
