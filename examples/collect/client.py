"""A user's device: it keeps the value, answers one question with one private bit, and stops.

The bit is drawn once. If the answer of the collector gets lost the same report is sent again, because a
second draw would tell more about the value. If the question has changed meanwhile the user is not
asked again: the bit has left the device, and the budget with it.
"""

from __future__ import annotations

import http.client
import json
import time
from fractions import Fraction

from randomiser import keep_weight, randomised

__all__ = ["Device"]


class Device:
    """One person's device.

    Parameters
    ----------
    value : float
        What is asked about; it never leaves the device.
    largest_epsilon : Fraction
        More than this is not spent, whatever the collector asks for.
    """

    def __init__(self, value: float, largest_epsilon: Fraction) -> None:
        self.value = value
        self.largest_epsilon = largest_epsilon

    def take_part(self, host: str, port: int, patience: float = 60.0) -> bool:
        """Answer one question; whether the report was counted.

        Raises
        ------
        ValueError
            If the collector asks for more than ``largest_epsilon``.
        TimeoutError
            If the collector was busy or away for ``patience`` seconds.
        """
        end = time.monotonic() + patience
        question = self.post(host, port, "/ask", {}, end)
        assert question is not None
        epsilon = Fraction(question["epsilon"])
        if epsilon > self.largest_epsilon:
            raise ValueError(f"asked for epsilon = {epsilon}, at most {self.largest_epsilon} is given")
        bit = 1 if self.value <= question["theta"] else 0
        report = {
            "user": question["user"],
            "round": question["round"],
            "report": randomised(bit, keep_weight(epsilon)),
        }
        return self.post(host, port, "/report", report, end) is not None

    def post(
        self, host: str, port: int, path: str, content: dict[str, object], end: float
    ) -> dict[str, object] | None:
        """Send until there is an answer; None where the question has changed."""
        pause = 0.002
        while time.monotonic() < end:
            try:
                connection = http.client.HTTPConnection(host, port, timeout=10)
                body = json.dumps(content)
                connection.request("POST", path, body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                said = json.loads(answer.read())
                connection.close()
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                answer = None  # the collector is away: try again, with the same report
            if answer is not None and answer.status == 200:
                return said
            if answer is not None and answer.status == 409:
                return None
            if answer is not None and answer.status == 400:
                raise ValueError(said["error"])
            time.sleep(pause)
            pause = min(2 * pause, 0.25)
        raise TimeoutError(f"no answer from {host}:{port}")
