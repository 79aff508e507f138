"""How batches are scheduled: one loop, thin executors (this process, or Ray)."""

from ldpflow.engine.events import Progress, RunResult
from ldpflow.engine.precision import Precision
from ldpflow.engine.run import replay, run_study, summarise_run

__all__ = ["Precision", "Progress", "RunResult", "replay", "run_study", "summarise_run"]
