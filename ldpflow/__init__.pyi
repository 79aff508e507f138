"""Types of the Python interface.

A component takes a value or a list of values for every setting, and checks them when it is made.
"""

from typing import Any

from ldpflow.components.algorithms import Algorithm as Algorithm
from ldpflow.components.algorithms.algorithm import DecayingSteps as DecayingSteps
from ldpflow.components.intervals import IntervalMethod as IntervalMethod
from ldpflow.components.intervals.interval import Intervals as Intervals
from ldpflow.components.intervals.interval import PathIntervalMethod as PathIntervalMethod
from ldpflow.components.mechanisms import Mechanism as Mechanism
from ldpflow.components.problems import Problem as Problem
from ldpflow.components.problems.problem import Units as Units
from ldpflow.components.problems.quantile import MixturePart as MixturePart
from ldpflow.components.problems.standard_laws import DataLaw as DataLaw
from ldpflow.components.protocols import Protocol as Protocol
from ldpflow.errors import Caution as Caution
from ldpflow.errors import InputError as InputError
from ldpflow.errors import LdpflowError as LdpflowError
from ldpflow.errors import MissingExtra as MissingExtra
from ldpflow.errors import StorageError as StorageError
from ldpflow.errors import SweepFailed as SweepFailed
from ldpflow.errors import SweepInterrupted as SweepInterrupted
from ldpflow.practice.planning import Plan as Plan
from ldpflow.practice.planning import plan as plan
from ldpflow.practice.transcripts.analysis import analyse as analyse
from ldpflow.practice.transcripts.reading import Transcript as Transcript
from ldpflow.run import Run as Run
from ldpflow.run import open_run as open_run
from ldpflow.study import Study as Study
from ldpflow.study import bundled_studies as bundled_studies
from ldpflow.study.plugins import load_plugin as load_plugin
from ldpflow.study.plugins import register as register
from ldpflow.sweeps import simulate as simulate
from ldpflow.sweeps import sweep as sweep

__version__: str

def __getattr__(name: str) -> Any: ...
