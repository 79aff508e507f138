"""A collector that asks one user at a time for one private bit.

    python server.py --folder run --tau 0.9 --epsilon 1 --gamma 0.51 --c 40 --theta0 20

``POST /ask`` lends the current question (round and theta) to one user for some seconds; ``POST /report``
takes the answer. The next question needs the answer to this one, so others wait some seconds for their
turn and are then asked to come back. A question whose time is over goes to the next user.
"""

from __future__ import annotations

import argparse
import logging
import re
import secrets
import threading
import time
from pathlib import Path

from flask import Flask, jsonify, request
from flask.typing import ResponseReturnValue
from transcript import Design, Stale, Transcript
from werkzeug.serving import make_server

LEND_SECONDS = 30.0
WAIT_SECONDS = 5.0
TOKEN = re.compile(r"[0-9a-f]{32}")


def application(transcript: Transcript, lend_seconds: float = LEND_SECONDS) -> Flask:
    """The collector's two questions and its state."""
    app = Flask(__name__)
    lock = threading.Condition()
    lent: dict[str, object] = {"user": None, "until": 0.0}

    def free() -> bool:
        return lent["user"] is None or time.monotonic() >= lent["until"]

    @app.get("/state")
    def state() -> ResponseReturnValue:
        with lock:
            return jsonify(reports=transcript.round - 1, theta=transcript.theta)

    @app.post("/ask")
    def ask() -> ResponseReturnValue:
        with lock:
            if not lock.wait_for(free, min(WAIT_SECONDS, lend_seconds)) and not free():
                return jsonify(error="other users are answering"), 503
            user = secrets.token_hex(16)
            lent.update(user=user, until=time.monotonic() + lend_seconds)
            design = transcript.design
            return jsonify(user=user, round=transcript.round, theta=transcript.theta, epsilon=design.epsilon)

    @app.post("/report")
    def report() -> ResponseReturnValue:
        said = request.get_json(silent=True)
        wrong = faults(said)
        if wrong:
            return jsonify(error=wrong), 400
        with lock:
            new = None
            try:
                new = transcript.add(said["user"], said["round"], said["report"])
            except OSError as error:
                # The question stays lent to this user, whose device sends the report again.
                return jsonify(error=f"it cannot be stored now: {error.strerror or error}"), 503
            except Stale:
                pass
            if lent["user"] == said["user"]:
                lent.update(user=None, until=0.0)
                lock.notify()
            if new is None:
                return jsonify(error="the question has changed; do not answer another"), 409
            return jsonify(counted=True, new=new)

    return app


def faults(said: object) -> str:
    """What is wrong with a report, or nothing."""
    if not isinstance(said, dict) or set(said) != {"user", "round", "report"}:
        return "expected user, round and report"
    if not isinstance(said["user"], str) or not TOKEN.fullmatch(said["user"]):
        return "user: expected the token that /ask gave"
    if type(said["round"]) is not int or said["round"] < 1:
        return "round: expected a whole number"
    if type(said["report"]) is not int or said["report"] not in (0, 1):
        return "report: expected 0 or 1"
    return ""


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the transcript is kept")
    parser.add_argument("--port", type=int, default=8000)
    for name in ("tau", "epsilon", "gamma", "c", "theta0"):
        parser.add_argument(f"--{name}", type=float, required=True)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    design = Design(arguments.tau, arguments.epsilon, arguments.gamma, arguments.c, arguments.theta0)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it would keep users' addresses
    transcript = Transcript(arguments.folder / "transcript.csv", design)
    server = make_server("127.0.0.1", arguments.port, application(transcript), threaded=True)
    print(f"collecting on http://127.0.0.1:{server.port}, {transcript.round - 1} reports so far", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    transcript.close()


if __name__ == "__main__":
    main()
