"""Servers in the place of a cluster's head that say nothing, too much, or something else: one message."""

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from ldpflow.cli import main
from ldpflow.engine import jobs

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextmanager
def serving(answer: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """A server that gives each connection to ``answer``, with the head of its request."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # the client has gone
                answer(self.request, self.request.recv(65536))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def silent(connection: socket.socket, request: bytes) -> None:
    connection.recv(1)


def flowing(piece: bytes, seconds: float) -> Callable[[socket.socket, bytes], None]:
    def answer(connection: socket.socket, request: bytes) -> None:
        connection.sendall(HEAD + b"\r\n{")
        while True:
            connection.sendall(piece)
            time.sleep(seconds)

    return answer


def saying(text: bytes, length: int | None = None) -> Callable[[socket.socket, bytes], None]:
    def answer(connection: socket.socket, request: bytes) -> None:
        head = b"Content-Length: %d\r\nConnection: close\r\n\r\n" % (length or len(text))
        connection.sendall(HEAD + head + text)

    return answer


VERSION = b'{"version": "4", "ray_version": "2.60.0", "ray_commit": "", "session_name": ""}'


def silent_later(connection: socket.socket, request: bytes) -> None:
    """A head whose dashboard answers and whose job server does not."""
    answer = saying(VERSION) if b"/api/version" in request else silent
    answer(connection, request)


ANSWERS = {
    "silent": silent, "silent later": silent_later, "endless": flowing(b" " * 65536, 0.0),
    "dripping": flowing(b" ", 0.05), "cut": saying(b"{", 1000),
    **{str(text): saying(text) for text in (b"[]", b'{"ray_version": []}', b"<html></html>", b"\xff\xfe")},
}  # fmt: skip


@pytest.mark.system
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_server_that_is_no_head(tmp_path, monkeypatch, capsys, answer):
    monkeypatch.setattr(jobs, "ANSWER_SECONDS", 1.0)
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")  # which `Jobs` sets, so that it is gone after the test
    with serving(answer) as address:
        began = time.monotonic()
        assert main(["submit", "quickstart", "--out", f"file://{tmp_path}/run", "--address", address]) == 2
        assert time.monotonic() - began < 60
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = [line for line in printed.err.splitlines() if not line.startswith("warning: ")]
    assert f"address: '{address}' is not allowed" in line
    assert not (tmp_path / "run").exists()
