"""Metrics of a sweep for Ray's Prometheus endpoint; see workflows/cluster/grafana.json."""

from __future__ import annotations

from ray.util.metrics import Counter, Gauge

from ldpflow.engine.executor import Outcome

__all__ = ["Metrics"]


class Metrics:
    """Counters and gauges of one run; Ray adds ``ray_`` before their names.

    Replicates and steps are counted once per path, when their batch is done; batches that Ray ran
    again because a node was lost are counted alike.

    Parameters
    ----------
    run : str
        The run directory, the label ``run``.
    """

    def __init__(self, run: str) -> None:
        def counter(name: str, description: str) -> Counter:
            made = Counter(name, description, tag_keys=("run",))
            made.set_default_tags({"run": run})
            return made

        self.replicates = counter("ldpflow_replicates_done", "Replicates of paths, done.")
        self.steps = counter("ldpflow_steps_done", "Steps of the recursion, done.")
        self.batches = counter("ldpflow_batches_done", "Batches done.")
        self.failures = counter("ldpflow_batches_failed", "Batches given up.")
        self.kernel_seconds = counter("ldpflow_kernel_seconds", "CPU seconds in recursions.")
        self.in_flight = Gauge(
            "ldpflow_batches_in_flight", "Batches sent out and not stored.", tag_keys=("run",)
        )
        self.in_flight.set_default_tags({"run": run})

    def took(self, outcome: Outcome) -> None:
        """A batch has come back."""
        if outcome.error is not None:
            self.failures.inc()
            return
        self.batches.inc()
        self.replicates.inc(outcome.batch.last - outcome.batch.first)
        self.steps.inc(outcome.batch.steps)
        if outcome.kernel_seconds > 0.0:  # Ray refuses to add nothing
            self.kernel_seconds.inc(outcome.kernel_seconds)

    def flying(self, batches: int) -> None:
        """So many batches are on their way."""
        self.in_flight.set(batches)
