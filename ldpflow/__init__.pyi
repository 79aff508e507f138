"""Types of the Python interface.

A component takes a value or a list of values for every setting, and checks them when it is made.
"""

from typing import Any

from ldpflow.algorithms import Algorithm as Algorithm
from ldpflow.algorithms.algorithm import DecayingSteps as DecayingSteps
from ldpflow.errors import Caution as Caution
from ldpflow.errors import InputError as InputError
from ldpflow.errors import LdpflowError as LdpflowError
from ldpflow.errors import MissingExtra as MissingExtra
from ldpflow.errors import StorageError as StorageError
from ldpflow.errors import SweepFailed as SweepFailed
from ldpflow.errors import SweepInterrupted as SweepInterrupted
from ldpflow.intervals import IntervalMethod as IntervalMethod
from ldpflow.intervals.interval import Intervals as Intervals
from ldpflow.intervals.interval import PathIntervalMethod as PathIntervalMethod
from ldpflow.mechanisms import Mechanism as Mechanism
from ldpflow.planning import Plan as Plan
from ldpflow.planning import plan as plan
from ldpflow.problems import Problem as Problem
from ldpflow.problems.data_law import DataLaw as DataLaw
from ldpflow.problems.quantile import MixturePart as MixturePart
from ldpflow.problems.units import Units as Units
from ldpflow.protocols import Protocol as Protocol
from ldpflow.run import Run as Run
from ldpflow.run import open_run as open_run
from ldpflow.study import Study as Study
from ldpflow.study import bundled_studies as bundled_studies
from ldpflow.study.plugins import load_plugin as load_plugin
from ldpflow.study.plugins import register as register
from ldpflow.sweeps import simulate as simulate
from ldpflow.sweeps import sweep as sweep
from ldpflow.transcripts.analysis import analyse as analyse
from ldpflow.transcripts.reading import Transcript as Transcript

__version__: str

def __getattr__(name: str) -> Any: ...
