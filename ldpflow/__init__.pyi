"""Types of the Python interface. Written by ``python -m ldpflow.study.stubs``: do not edit."""

from collections.abc import Sequence

from ldpflow.algorithms import Algorithm as Algorithm
from ldpflow.algorithms.algorithm import DecayingSteps as DecayingSteps
from ldpflow.algorithms.budget_split import BudgetSplit as _BudgetSplit
from ldpflow.algorithms.dp_ambssgd import DpAmbssgd as _DpAmbssgd
from ldpflow.algorithms.dp_gd import DpGd as _DpGd
from ldpflow.algorithms.dp_mbssgd import DpMbssgd as _DpMbssgd
from ldpflow.algorithms.dp_nsgd import DpNsgd as _DpNsgd
from ldpflow.algorithms.dp_nsgd_reduced import DpNsgdReduced as _DpNsgdReduced
from ldpflow.algorithms.dp_sgd import DpSgd as _DpSgd
from ldpflow.algorithms.dp_ssgd import DpSsgd as _DpSsgd
from ldpflow.algorithms.ldp_sgd import LdpSgd as _LdpSgd
from ldpflow.algorithms.minibatch_sgd import MinibatchSgd as _MinibatchSgd
from ldpflow.algorithms.sufficient_statistics import OrdinaryLeastSquares as _OrdinaryLeastSquares
from ldpflow.algorithms.sufficient_statistics import SufficientStatistics as _SufficientStatistics
from ldpflow.algorithms.tail_sgd import TailSgd as _TailSgd
from ldpflow.errors import Caution as Caution
from ldpflow.errors import InputError as InputError
from ldpflow.errors import LdpflowError as LdpflowError
from ldpflow.errors import MissingExtra as MissingExtra
from ldpflow.errors import StorageError as StorageError
from ldpflow.errors import SweepFailed as SweepFailed
from ldpflow.errors import SweepInterrupted as SweepInterrupted
from ldpflow.intervals import IntervalMethod as IntervalMethod
from ldpflow.intervals.bootstrap import BlockBootstrap as _BlockBootstrap
from ldpflow.intervals.bootstrap import CheapBootstrap as _CheapBootstrap
from ldpflow.intervals.bootstrap import PerturbedBootstrap as _PerturbedBootstrap
from ldpflow.intervals.counts import Fieller as _Fieller
from ldpflow.intervals.counts import Inversion as _Inversion
from ldpflow.intervals.interval import Intervals as Intervals
from ldpflow.intervals.interval import PathIntervalMethod as PathIntervalMethod
from ldpflow.intervals.nested import ConfidenceSequence as _ConfidenceSequence
from ldpflow.intervals.nested import JointRegion as _JointRegion
from ldpflow.intervals.nested import SuffixAverage as _SuffixAverage
from ldpflow.intervals.parallel_runs import ConvexHull as _ConvexHull
from ldpflow.intervals.parallel_runs import ParallelRuns as _ParallelRuns
from ldpflow.intervals.transcript import TranscriptCovariance as _TranscriptCovariance
from ldpflow.intervals.transcript import TranscriptRegression as _TranscriptRegression
from ldpflow.intervals.transcript import TranscriptRegressionBatchMeans as _TranscriptRegressionBatchMeans
from ldpflow.intervals.variance import BatchMeans as _BatchMeans
from ldpflow.intervals.variance import EqualBatches as _EqualBatches
from ldpflow.intervals.variance import Lugsail as _Lugsail
from ldpflow.intervals.variance import NonoverlappingBlocks as _NonoverlappingBlocks
from ldpflow.intervals.variance import Oracle as _Oracle
from ldpflow.intervals.variance import OverlappingBlocks as _OverlappingBlocks
from ldpflow.intervals.variance import SelfNormalization as _SelfNormalization
from ldpflow.mechanisms import Mechanism as Mechanism
from ldpflow.mechanisms.cells import Cells as _Cells
from ldpflow.mechanisms.clipped_gaussian import ClippedGaussian as _ClippedGaussian
from ldpflow.mechanisms.deployed_response import DeployedResponse as _DeployedResponse
from ldpflow.mechanisms.gaussian import Gaussian as _Gaussian
from ldpflow.mechanisms.laplace import Laplace as _Laplace
from ldpflow.mechanisms.none import NoMechanism as _NoMechanism
from ldpflow.mechanisms.randomized_response import RandomizedResponse as _RandomizedResponse
from ldpflow.planning import Plan as Plan
from ldpflow.planning import plan as plan
from ldpflow.problems import Problem as Problem
from ldpflow.problems.data_law import DataLaw as DataLaw
from ldpflow.problems.least_squares import LeastSquares as _LeastSquares
from ldpflow.problems.linear_regression import LinearRegression as _LinearRegression
from ldpflow.problems.logistic_regression import LogisticRegression as _LogisticRegression
from ldpflow.problems.nonconvex_logistic import NonconvexLogistic as _NonconvexLogistic
from ldpflow.problems.quadratic import Quadratic as _Quadratic
from ldpflow.problems.quantile import MixturePart as MixturePart
from ldpflow.problems.quantile import Quantile as _Quantile
from ldpflow.problems.quantile_regression import QuantileRegression as _QuantileRegression
from ldpflow.problems.quantiles import Quantiles as _Quantiles
from ldpflow.problems.robust_regression import RobustRegression as _RobustRegression
from ldpflow.problems.sigmoid_loss import SigmoidLoss as _SigmoidLoss
from ldpflow.problems.units import Units as Units
from ldpflow.protocols import Protocol as Protocol
from ldpflow.protocols.grr import Grr as _Grr
from ldpflow.protocols.hadamard import Haar as _Haar
from ldpflow.protocols.hadamard import Hrr as _Hrr
from ldpflow.protocols.oue import Oue as _Oue
from ldpflow.protocols.rounds import Rounds as _Rounds
from ldpflow.protocols.thresholds import Thresholds as _Thresholds
from ldpflow.protocols.tree import Tree as _Tree
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

class BudgetSplit(_BudgetSplit):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
        gamma: float | Sequence[float] = ...,
        c: float | Sequence[float] = ...,
        perturbations: int | Sequence[int] = ...,
    ) -> None: ...

class DpAmbssgd(_DpAmbssgd):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
        epsilon: float | Sequence[float] = ...,
        delta: float | Sequence[float] = ...,
        accounting: str | Sequence[str] = ...,
        noise_multiplier: float | Sequence[float] | None = ...,
        iterations: int | Sequence[int] | None = ...,
        eta: float | Sequence[float] | None = ...,
        radius: float | Sequence[float] | None = ...,
        radius_of: str | Sequence[str] = ...,
        infeasible_is: str | Sequence[str] = ...,
        c_zeta: float | Sequence[float] = ...,
        domain: float | Sequence[float] | None = ...,
        doublings: int | Sequence[int] = ...,
        beta_stat: float | Sequence[float] = ...,
        part: int | Sequence[int] = ...,
        rule: str | Sequence[str] = ...,
    ) -> None: ...

class DpGd(_DpGd):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
        epsilon: float | Sequence[float] = ...,
        delta: float | Sequence[float] = ...,
        epochs: float | Sequence[float] | None = ...,
        eta: float | Sequence[float] | None = ...,
    ) -> None: ...

class DpMbssgd(_DpMbssgd):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
        epsilon: float | Sequence[float] = ...,
        delta: float | Sequence[float] = ...,
        accounting: str | Sequence[str] = ...,
        noise_multiplier: float | Sequence[float] | None = ...,
        iterations: int | Sequence[int] | None = ...,
        eta: float | Sequence[float] | None = ...,
        radius: float | Sequence[float] | None = ...,
        radius_of: str | Sequence[str] = ...,
        infeasible_is: str | Sequence[str] = ...,
        clip: float | Sequence[float] | None = ...,
        c_zeta: float | Sequence[float] = ...,
    ) -> None: ...

class DpNsgd(_DpNsgd):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
        epsilon: float | Sequence[float] = ...,
        delta: float | Sequence[float] = ...,
        epochs: float | Sequence[float] | None = ...,
        eta: float | Sequence[float] | None = ...,
        order: str | Sequence[str] = ...,
        batch_size: int | Sequence[int] = ...,
        alpha: float | Sequence[float] | None = ...,
        calibration: str | Sequence[str] = ...,
        parameters: str | Sequence[str] = ...,
        noise: str | Sequence[str] = ...,
    ) -> None: ...

class DpNsgdReduced(_DpNsgdReduced):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
        epsilon: float | Sequence[float] = ...,
        delta: float | Sequence[float] = ...,
        epochs: float | Sequence[float] | None = ...,
        eta: float | Sequence[float] | None = ...,
        order: str | Sequence[str] = ...,
        batch_size: int | Sequence[int] = ...,
        alpha: float | Sequence[float] | None = ...,
        calibration: str | Sequence[str] = ...,
        parameters: str | Sequence[str] = ...,
        cross: float | Sequence[float] | None = ...,
        difference_scale: float | Sequence[float] = ...,
    ) -> None: ...

class DpSgd(_DpSgd):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
        epsilon: float | Sequence[float] = ...,
        delta: float | Sequence[float] = ...,
        epochs: float | Sequence[float] | None = ...,
        eta: float | Sequence[float] | None = ...,
        batch_size: int | Sequence[int] = ...,
    ) -> None: ...

class DpSsgd(_DpSsgd):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
        eta: float | Sequence[float] | None = ...,
        epsilon: float | Sequence[float] = ...,
        delta: float | Sequence[float] = ...,
        clip: float | Sequence[float] | None = ...,
        step_rule: str | Sequence[str] = ...,
        c1: float | Sequence[float] = ...,
        c2: float | Sequence[float] = ...,
        noise_multiplier: float | Sequence[float] | None = ...,
    ) -> None: ...

class LdpSgd(_LdpSgd):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
        gamma: float | Sequence[float] = ...,
        c: float | Sequence[float] = ...,
        c_factors: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        theta0_offsets: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        radius: float | Sequence[float] | None = ...,
    ) -> None: ...

class MinibatchSgd(_MinibatchSgd):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
        gamma: float | Sequence[float] = ...,
        c: float | Sequence[float] = ...,
        c_factors: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        theta0_offsets: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        batch_size: int | Sequence[int] | None = ...,
        rounds: int | Sequence[int] | None = ...,
        noise: str | Sequence[str] = ...,
    ) -> None: ...

class OrdinaryLeastSquares(_OrdinaryLeastSquares):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
    ) -> None: ...

class SufficientStatistics(_SufficientStatistics):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
        epsilon: float | Sequence[float] = ...,
        delta: float | Sequence[float] = ...,
        accounting: str | Sequence[str] = ...,
        noise_multiplier: float | Sequence[float] | None = ...,
        x_bound: float | Sequence[float] | None = ...,
        y_bound: float | Sequence[float] | None = ...,
        ridge: float | Sequence[float] = ...,
    ) -> None: ...

class TailSgd(_TailSgd):
    def __init__(
        self,
        *,
        theta0: float | Sequence[float] = ...,
        eta: float | Sequence[float] | None = ...,
    ) -> None: ...

class BatchMeans(_BatchMeans):
    def __init__(
        self,
        *,
        M: int | Sequence[int] | None = ...,
        quantile: str | Sequence[str] | None = ...,
    ) -> None: ...

class BlockBootstrap(_BlockBootstrap):
    def __init__(
        self,
        *,
        beta: float | Sequence[float] = ...,
        B: int | Sequence[int] = ...,
        multiplier: str | Sequence[str] = ...,
    ) -> None: ...

class CheapBootstrap(_CheapBootstrap):
    def __init__(
        self,
        *,
        beta: float | Sequence[float] = ...,
        B: int | Sequence[int] = ...,
        multiplier: str | Sequence[str] = ...,
    ) -> None: ...

class ConfidenceSequence(_ConfidenceSequence):
    def __init__(
        self,
        *,
        base: str | Sequence[str] = ...,
        M: int | Sequence[int] | None = ...,
        block_rule: str | Sequence[str] | None = ...,
        block_c: float | Sequence[float] | None = ...,
        degree: int | Sequence[int] | None = ...,
        burn_in: str | Sequence[str] | None = ...,
        variance: str | Sequence[str] | None = ...,
        small_run: bool | Sequence[bool] | None = ...,
        t_opt: int | Sequence[int] | None = ...,
    ) -> None: ...

class ConvexHull(_ConvexHull):
    def __init__(self) -> None: ...

class EqualBatches(_EqualBatches):
    def __init__(
        self,
        *,
        block_rule: str | Sequence[str] = ...,
        block_c: float | Sequence[float] | None = ...,
        quantile: str | Sequence[str] = ...,
    ) -> None: ...

class Fieller(_Fieller):
    def __init__(self) -> None: ...

class Inversion(_Inversion):
    def __init__(
        self,
        *,
        limits: str | Sequence[str] = ...,
    ) -> None: ...

class JointRegion(_JointRegion):
    def __init__(
        self,
        *,
        base: str | Sequence[str] = ...,
        M: int | Sequence[int] | None = ...,
        block_rule: str | Sequence[str] | None = ...,
        block_c: float | Sequence[float] | None = ...,
        degree: int | Sequence[int] | None = ...,
        burn_in: str | Sequence[str] | None = ...,
        variance: str | Sequence[str] | None = ...,
        small_run: bool | Sequence[bool] | None = ...,
        quantile: str | Sequence[str] = ...,
    ) -> None: ...

class Lugsail(_Lugsail):
    def __init__(
        self,
        *,
        base: str | Sequence[str] = ...,
        pieces: int | Sequence[int] = ...,
        weight: float | Sequence[float] = ...,
        block_rule: str | Sequence[str] | None = ...,
        block_c: float | Sequence[float] | None = ...,
        M: int | Sequence[int] | None = ...,
    ) -> None: ...

class NonoverlappingBlocks(_NonoverlappingBlocks):
    def __init__(
        self,
        *,
        block_c: float | Sequence[float] = ...,
        quantile: str | Sequence[str] = ...,
    ) -> None: ...

class Oracle(_Oracle):
    def __init__(self) -> None: ...

class OverlappingBlocks(_OverlappingBlocks):
    def __init__(
        self,
        *,
        block_c: float | Sequence[float] = ...,
    ) -> None: ...

class ParallelRuns(_ParallelRuns):
    def __init__(
        self,
        *,
        K: int | Sequence[int] = ...,
    ) -> None: ...

class PerturbedBootstrap(_PerturbedBootstrap):
    def __init__(self) -> None: ...

class SelfNormalization(_SelfNormalization):
    def __init__(self) -> None: ...

class SuffixAverage(_SuffixAverage):
    def __init__(
        self,
        *,
        base: str | Sequence[str] = ...,
        M: int | Sequence[int] | None = ...,
        block_rule: str | Sequence[str] | None = ...,
        block_c: float | Sequence[float] | None = ...,
        degree: int | Sequence[int] | None = ...,
        burn_in: str | Sequence[str] | None = ...,
        variance: str | Sequence[str] | None = ...,
        small_run: bool | Sequence[bool] | None = ...,
        share: float | Sequence[float] = ...,
    ) -> None: ...

class TranscriptCovariance(_TranscriptCovariance):
    def __init__(
        self,
        *,
        degree: int | Sequence[int] | None = ...,
        burn_in: str | Sequence[str] = ...,
        variance: str | Sequence[str] = ...,
        small_run: bool | Sequence[bool] = ...,
    ) -> None: ...

class TranscriptRegression(_TranscriptRegression):
    def __init__(
        self,
        *,
        degree: int | Sequence[int] = ...,
        burn_in: str | Sequence[str] = ...,
        separate: bool | Sequence[bool] | None = ...,
        variance: str | Sequence[str] = ...,
    ) -> None: ...

class TranscriptRegressionBatchMeans(_TranscriptRegressionBatchMeans):
    def __init__(
        self,
        *,
        degree: int | Sequence[int] = ...,
        burn_in: str | Sequence[str] = ...,
        separate: bool | Sequence[bool] | None = ...,
        M: int | Sequence[int] | None = ...,
    ) -> None: ...

class Cells(_Cells):
    def __init__(
        self,
        *,
        epsilon: float | Sequence[float] = ...,
        sampling: str | Sequence[str] = ...,
    ) -> None: ...

class ClippedGaussian(_ClippedGaussian):
    def __init__(
        self,
        *,
        clip: float | Sequence[float] = ...,
        mu: float | Sequence[float] = ...,
    ) -> None: ...

class DeployedResponse(_DeployedResponse):
    def __init__(
        self,
        *,
        epsilon: float | Sequence[float] = ...,
        sampling: str | Sequence[str] = ...,
        liars: float | Sequence[float] = ...,
        liars_push: str | Sequence[str] = ...,
        answer_below: float | Sequence[float] = ...,
        answer_above: float | Sequence[float] = ...,
        answers: int | Sequence[int] = ...,
    ) -> None: ...

class Gaussian(_Gaussian):
    def __init__(
        self,
        *,
        mu: float | Sequence[float] = ...,
        mu_min: float | Sequence[float] | None = ...,
        budgets: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
    ) -> None: ...

class Laplace(_Laplace):
    def __init__(
        self,
        *,
        epsilon: float | Sequence[float] = ...,
    ) -> None: ...

class NoMechanism(_NoMechanism):
    def __init__(self) -> None: ...

class RandomizedResponse(_RandomizedResponse):
    def __init__(
        self,
        *,
        epsilon: float | Sequence[float] = ...,
        sampling: str | Sequence[str] = ...,
    ) -> None: ...

class LeastSquares(_LeastSquares):
    def __init__(
        self,
        *,
        d: int | Sequence[int] = ...,
        kappa: float | Sequence[float] = ...,
        eigenvalues: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        norm: float | Sequence[float] = ...,
        coefficients: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        sigma: float | Sequence[float] = ...,
        design: str | Sequence[str] = ...,
        errors: str | Sequence[str] = ...,
        file: str | Sequence[str] | None = ...,
        target: str | Sequence[str] | None = ...,
        features: tuple[str, ...] | Sequence[tuple[str, ...]] | None = ...,
        sha256: str | Sequence[str] | None = ...,
    ) -> None: ...

class LinearRegression(_LinearRegression):
    def __init__(
        self,
        *,
        coefficients: tuple[float, ...] | Sequence[tuple[float, ...]] = ...,
        huber: float | Sequence[float] = ...,
        bounding: str | Sequence[str] = ...,
        clip: float | Sequence[float] | None = ...,
        file: str | Sequence[str] | None = ...,
        target: str | Sequence[str] | None = ...,
        features: tuple[str, ...] | Sequence[tuple[str, ...]] | None = ...,
        sha256: str | Sequence[str] | None = ...,
        moments: str | Sequence[str] | None = ...,
    ) -> None: ...

class LogisticRegression(_LogisticRegression):
    def __init__(
        self,
        *,
        coefficients: tuple[float, ...] | Sequence[tuple[float, ...]] = ...,
        covariates: str | Sequence[str] = ...,
        bounding: str | Sequence[str] = ...,
        clip: float | Sequence[float] | None = ...,
        file: str | Sequence[str] | None = ...,
        target: str | Sequence[str] | None = ...,
        features: tuple[str, ...] | Sequence[tuple[str, ...]] | None = ...,
        sha256: str | Sequence[str] | None = ...,
        moments: str | Sequence[str] | None = ...,
    ) -> None: ...

class NonconvexLogistic(_NonconvexLogistic):
    def __init__(
        self,
        *,
        d: int | Sequence[int] = ...,
        bound: float | Sequence[float] = ...,
        file: str | Sequence[str] | None = ...,
        target: str | Sequence[str] | None = ...,
        features: tuple[str, ...] | Sequence[tuple[str, ...]] | None = ...,
        sha256: str | Sequence[str] | None = ...,
        separation: float | Sequence[float] = ...,
        direction: str | Sequence[str] = ...,
        label_noise: float | Sequence[float] = ...,
        penalty: float | Sequence[float] = ...,
    ) -> None: ...

class Quadratic(_Quadratic):
    def __init__(
        self,
        *,
        curvatures: tuple[float, ...] | Sequence[tuple[float, ...]] = ...,
        minimiser: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        bound: float | Sequence[float] = ...,
    ) -> None: ...

class Quantile(_Quantile):
    def __init__(
        self,
        *,
        tau: float | Sequence[float] = ...,
        law: str | Sequence[str] = ...,
        location: float | Sequence[float] = ...,
        scale: float | Sequence[float] = ...,
        df: float | Sequence[float] | None = ...,
        shape: float | Sequence[float] | None = ...,
        components: tuple[MixturePart, ...] | Sequence[tuple[MixturePart, ...]] | None = ...,
        file: str | Sequence[str] | None = ...,
        column: str | Sequence[str] | None = ...,
        missing: str | Sequence[str] | None = ...,
        jitter: float | Sequence[float] | None = ...,
        sha256: str | Sequence[str] | None = ...,
        law_table: str | Sequence[str] | None = ...,
        units: Units | Sequence[Units] | None = ...,
    ) -> None: ...

class QuantileRegression(_QuantileRegression):
    def __init__(
        self,
        *,
        tau: float | Sequence[float] = ...,
        coefficients: tuple[float, ...] | Sequence[tuple[float, ...]] = ...,
        covariates: str | Sequence[str] = ...,
        bound: float | Sequence[float] = ...,
        errors: str | Sequence[str] = ...,
        error_scale: float | Sequence[float] = ...,
        df: float | Sequence[float] | None = ...,
    ) -> None: ...

class Quantiles(_Quantiles):
    def __init__(
        self,
        *,
        taus: tuple[float, ...] | Sequence[tuple[float, ...]] = ...,
        law: str | Sequence[str] = ...,
        location: float | Sequence[float] = ...,
        scale: float | Sequence[float] = ...,
        df: float | Sequence[float] | None = ...,
        units: Units | Sequence[Units] | None = ...,
    ) -> None: ...

class RobustRegression(_RobustRegression):
    def __init__(
        self,
        *,
        d: int | Sequence[int] = ...,
        bound: float | Sequence[float] = ...,
        file: str | Sequence[str] | None = ...,
        target: str | Sequence[str] | None = ...,
        features: tuple[str, ...] | Sequence[tuple[str, ...]] | None = ...,
        sha256: str | Sequence[str] | None = ...,
        signal: float | Sequence[float] = ...,
        error_scale: float | Sequence[float] = ...,
    ) -> None: ...

class SigmoidLoss(_SigmoidLoss):
    def __init__(
        self,
        *,
        d: int | Sequence[int] = ...,
        bound: float | Sequence[float] = ...,
        file: str | Sequence[str] | None = ...,
        target: str | Sequence[str] | None = ...,
        features: tuple[str, ...] | Sequence[tuple[str, ...]] | None = ...,
        sha256: str | Sequence[str] | None = ...,
        separation: float | Sequence[float] = ...,
        direction: str | Sequence[str] = ...,
        label_noise: float | Sequence[float] = ...,
    ) -> None: ...

class Grr(_Grr):
    def __init__(
        self,
        *,
        epsilon: float | Sequence[float] = ...,
        range: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        answer_below: float | Sequence[float] = ...,
        answer_above: float | Sequence[float] = ...,
        liars: float | Sequence[float] = ...,
        liars_push: str | Sequence[str] = ...,
        answers: int | Sequence[int] = ...,
        k: int | Sequence[int] | None = ...,
        scale_guess: float | Sequence[float] | None = ...,
    ) -> None: ...

class Haar(_Haar):
    def __init__(
        self,
        *,
        epsilon: float | Sequence[float] = ...,
        range: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        answer_below: float | Sequence[float] = ...,
        answer_above: float | Sequence[float] = ...,
        liars: float | Sequence[float] = ...,
        liars_push: str | Sequence[str] = ...,
        answers: int | Sequence[int] = ...,
        k: int | Sequence[int] | None = ...,
        scale_guess: float | Sequence[float] | None = ...,
    ) -> None: ...

class Hrr(_Hrr):
    def __init__(
        self,
        *,
        epsilon: float | Sequence[float] = ...,
        range: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        answer_below: float | Sequence[float] = ...,
        answer_above: float | Sequence[float] = ...,
        liars: float | Sequence[float] = ...,
        liars_push: str | Sequence[str] = ...,
        answers: int | Sequence[int] = ...,
        k: int | Sequence[int] | None = ...,
        scale_guess: float | Sequence[float] | None = ...,
    ) -> None: ...

class Oue(_Oue):
    def __init__(
        self,
        *,
        epsilon: float | Sequence[float] = ...,
        range: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        answer_below: float | Sequence[float] = ...,
        answer_above: float | Sequence[float] = ...,
        liars: float | Sequence[float] = ...,
        liars_push: str | Sequence[str] = ...,
        answers: int | Sequence[int] = ...,
        k: int | Sequence[int] | None = ...,
        scale_guess: float | Sequence[float] | None = ...,
    ) -> None: ...

class Rounds(_Rounds):
    def __init__(
        self,
        *,
        epsilon: float | Sequence[float] = ...,
        range: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        answer_below: float | Sequence[float] = ...,
        answer_above: float | Sequence[float] = ...,
        liars: float | Sequence[float] = ...,
        liars_push: str | Sequence[str] = ...,
        answers: int | Sequence[int] = ...,
        rounds: int | Sequence[int] = ...,
    ) -> None: ...

class Thresholds(_Thresholds):
    def __init__(
        self,
        *,
        epsilon: float | Sequence[float] = ...,
        range: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        answer_below: float | Sequence[float] = ...,
        answer_above: float | Sequence[float] = ...,
        liars: float | Sequence[float] = ...,
        liars_push: str | Sequence[str] = ...,
        answers: int | Sequence[int] = ...,
        k: int | Sequence[int] | None = ...,
        scale_guess: float | Sequence[float] | None = ...,
    ) -> None: ...

class Tree(_Tree):
    def __init__(
        self,
        *,
        epsilon: float | Sequence[float] = ...,
        range: tuple[float, ...] | Sequence[tuple[float, ...]] | None = ...,
        answer_below: float | Sequence[float] = ...,
        answer_above: float | Sequence[float] = ...,
        liars: float | Sequence[float] = ...,
        liars_push: str | Sequence[str] = ...,
        answers: int | Sequence[int] = ...,
        k: int | Sequence[int] | None = ...,
        scale_guess: float | Sequence[float] | None = ...,
    ) -> None: ...
