"""The report of a run that is still going, served on this machine.

The page is made anew from the Parquet parts when they have changed; a browser asks every two
seconds, with the entity tag of what it has, and the answer is "not modified" in between.
"""

from __future__ import annotations

import hashlib
import html
import ipaddress
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ldpflow.errors import InputError
from ldpflow.report.page import report_html
from ldpflow.report.results import Results
from ldpflow.store import RunStore

__all__ = ["LivePage", "server"]

PATIENCE = 4.0  # a page is made anew at most a fifth of the time

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
        """What changes when a part, the study or a session does."""
        store = RunStore(self.run)
        names = [part.name for dataset in store.datasets() for group in dataset.scan() for part in group]
        others = map(store.read, ("study.toml", "provenance.json"))
        return "\n".join([*names, *(data.to_pybytes().decode() for data in others if data)])

    def make(self) -> str:
        """The page from the stored parts."""
        try:
            return report_html(Results.load(self.run, from_parts=True), live=True)
        except InputError:
            return WAITING.format(run=html.escape(self.run))


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
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and not allow_remote:
        raise InputError("host", host, "127.0.0.1", "`allow_remote` lets other machines read the results.")
    page = LivePage(run)

    class Handler(BaseHTTPRequestHandler):
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
        found = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("port", port, "a free port", f"{reason}.") from None
    found.daemon_threads = True
    return found
