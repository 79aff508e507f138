"""A user's device: it keeps the value, answers one question with one private report, and stops.

The report is drawn once. If the answer of the collector gets lost, the device sends this report again: a
second draw would reveal more about the value. If the question has changed meanwhile, the user is not asked
again, since the report has left the device and has spent the budget. The module needs only the standard
library and ldpflow.client.
"""

from __future__ import annotations

import http.client
import json
import time
from typing import Any

from ldpflow import client

__all__ = ["Device"]


class Device:
    """One person's device.

    Parameters
    ----------
    value : float
        Value that the collector asks about. It never leaves the device.
    largest_budget : float
        Largest epsilon (or mu) that the device spends. It refuses a larger one.
    """

    def __init__(self, value: float, largest_budget: float) -> None:
        self.value = value
        self.largest_budget = largest_budget

    def report(self, function: str, parameters: dict[str, Any]) -> Any:
        """Draw the private report. Nothing else that depends on the value leaves the device.

        Raises
        ------
        ValueError
            If the collector asks for more than ``largest_budget``, or names a function that the client lacks.
        """
        if function not in client.REPORTS:
            raise ValueError(f"asked for {function}, which this device does not have")
        budget = parameters.get("mu", parameters.get("epsilon"))
        if not 0 < budget <= self.largest_budget:
            raise ValueError(f"asked for a budget of {budget}, at most {self.largest_budget} is given")
        public = dict(parameters)
        value = self.value
        if "jitter" in public:
            value = client.jitter(value, public.pop("jitter"))
        if "transform" in public:
            value = client.to_scale(value, public.pop("transform"))
        randomise: Any = client.REPORTS[function]
        if function in ("laplace", "gaussian"):
            gradient = [float(value <= public.pop("theta")) - public.pop("tau")]
            return randomise(gradient, **public)[0]
        found = randomise(value, **public)
        return found[1] if isinstance(found, tuple) else found

    def take_part(self, connection: http.client.HTTPConnection, patience: float = 120.0) -> bool:
        """Answer one question. Return whether the report was counted.

        Raises
        ------
        TimeoutError
            If the collector was busy or could not be reached for ``patience`` seconds.
        """
        end = time.monotonic() + patience
        asked = post(connection, "/ask", {}, end)
        if asked is None:
            return False
        report = self.report(asked["function"], asked["parameters"])
        said = {"ticket": asked["ticket"], "mac": asked["mac"], "report": report}
        return post(connection, "/report", said, end) is not None


def post(
    connection: http.client.HTTPConnection, path: str, content: dict[str, Any], end: float
) -> dict[str, Any] | None:
    """Send until there is an answer. None if the question has changed or no user is needed."""
    pause = 0.002
    while time.monotonic() < end:
        try:
            connection.request("POST", path, json.dumps(content), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said: dict[str, Any] = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            connection.close()  # the collector cannot be reached: send this content again
        else:
            if answer.status == 200:
                return said
            if answer.status in (409, 410):
                return None
            if answer.status != 503:
                raise ValueError(said["error"])
        time.sleep(pause)
        pause = min(2 * pause, 0.25)
    raise TimeoutError("no answer from the collector")
