"""The names that a recursion finds in the kernel it becomes part of (see kernels.py)."""

from typing import Any

D: int  # coordinates
STATE: int  # D * LANES, the size of theta
EXTRAS: int  # the size of what is recorded beside the iterates
SUMS: int  # the size of all running sums
TILE_SIZE: int  # the size of the tile of the transcript; 0 where no sums over it are asked for
PAIRS: int  # D (D + 1)/2, the products of two coordinates
PRODUCTS: int  # their size over a tile
PROBLEM_SIZE: int  # kernel parameters of the problem
MECHANISM_SIZE: int
PROJECTED: int  # 1 where iterates are projected
ANCHORS: int  # the size of what prepare_chunk keeps
THIRD_DERIVATIVE: float  # sup of the size of cdf's third derivative
DATA_PLANES: int
NOISE_PLANES: int

def draw_data(state: Any, parameters: Any, data: Any) -> None:
    """Fill the planes of one chunk of records."""

def draw_noise(state: Any, parameters: Any, noise: Any) -> None:
    """Fill the planes of one chunk of mechanism noise."""

def gradient(g: Any, theta: Any, data: Any, at: int, lane: int, parameters: Any) -> None:
    """g(X, theta) of one lane for the record at place ``at`` of the planes (a problem's)."""

def randomise(g: Any, noise: Any, at: int, lane: int, parameters: Any) -> None:
    """A(g) of one lane, in place, with the noise at place ``at`` of the planes (a mechanism's)."""

def answer(g: Any, noise: Any, at: int, lane: int, parameters: Any) -> None:
    """The mechanism's A(g) where ``randomise`` is not (of a perturbed path)."""

def recursion(*arguments: Any) -> None:
    """The algorithm's own part of a kernel (see algorithms/one_pass.py and erm_steps.py)."""

def add_iterate(total: Any, centre: Any, sums: Any, theta: Any, step: float, lane: int) -> None:
    """After a step, in one lane: S(i) = S(i-1) + theta_i, and the sums that follow it."""

def keep_path(record: Any, theta: Any, t: int) -> None:
    """Record the path at its t-th time."""

def keep_step(tile: Any, centre: Any, theta: Any, g: Any, kept: int, lane: int) -> None:
    """theta_{i-1} - centre and the private gradient of one lane, for the sums over the transcript."""

def end_step(sums: Any, tile: Any, kept: int, ends: bool) -> int:
    """After a step, in all lanes: the tile is added up when it is full, or ends here."""

def restart(sums: Any, i: int, kept: int) -> int:
    """After a power of two the sums over the transcript start again."""

def accumulate(sums: Any, tile: Any) -> None:
    """All sums over the transcript that are asked for take a full tile."""

def clear(sums: Any) -> None:
    """All sums over the transcript are 0 again."""

def after_step(sums: Any, total: Any, i: int, lane: int) -> None:
    """Running sums of one lane that need S(i) and i."""

def step_sizes(first: int, c: float, gamma: float, eta: Any) -> None:
    """eta_i for i = first, first + 1, ..."""

def cdf_normal(x: float) -> float:
    """Distribution function of N(0, 1)."""

def exp(x: float) -> float:
    """e^x."""

def log(x: float) -> float:
    """Natural logarithm."""

def prepare_chunk(anchors: Any, theta: Any, problem: Any, mechanism: Any) -> None:
    """Before a chunk, for kernels that draw what the algorithm sees; else nothing."""

def prepare_step(g: Any, theta: Any, noise: Any, k: int, anchors: Any, problem: Any, mechanism: Any) -> None:
    """Before a step, in all lanes at once, for the same kernels; else nothing."""

def cdf(x: float) -> float:
    """Distribution function of the problem's standard law."""

BLOCKS: int  # D rounded up to a multiple of 4, times LANES: room for a node's noise
NOISE: int  # 0 none, 1 a noise tree, 2 fresh noise in every step

def loss(u: Any, y: Any, parameters: Any) -> float: ...
def derivative(u: Any, y: Any, parameters: Any) -> float: ...
def separable_loss(w: Any, y: Any, parameters: Any) -> float: ...
def separable(w: Any, y: Any, parameters: Any) -> float: ...
def record(x: Any, data: Any, at: int, parameters: Any) -> float:
    """One synthetic record: x filled, y returned."""

def fetch(x: Any, y: Any, rows: Any, targets: Any, places: Any) -> None:
    """The lanes' records, coordinate by coordinate."""

def add_gradient(g: Any, w: Any, x: Any, y: Any, parameters: Any) -> None:
    """g += grad f(w, (x, y)) in every lane."""

def halvings(doubled: Any, alpha: float) -> None:
    """(1 - alpha)^(2^level)."""

def prefix_noise(
    zeta: Any, prefixes: Any, doubled: Any, keys: Any, tree: int, t: int, deviation: float
) -> None:
    """The noise of a tree's prefix [1, t], in every lane."""

def keep(
    k: int,
    t: int,
    times: Any,
    w: Any,
    mhat: Any,
    m: Any,
    iterates: Any,
    estimates: Any,
    momenta: Any,
) -> int:
    """Record step t if it is the next time."""

def choose(c: int, t: int, chosen_times: Any, chosen_lanes: Any, w: Any, chosen: Any) -> int:
    """Keep the random output of the lanes whose time it is."""

def draw_subset(order: Any, state: Any, planes: Any, used: int, count: int, size: int) -> int:
    """A random subset of the records, in every lane."""

def move(w: Any, direction: Any, eta: float) -> None:
    """w -= eta direction / ||direction|| in every lane."""

def draw_order(order: Any, state: Any, epoch: int, count: int) -> None:
    """The order of an epoch's batches, in every lane."""

def node_noise(out: Any, keys: Any, tree: int, level: int, index: int, scale: float) -> None:
    """The noise of a tree's node, in every lane."""

def residual(theta: Any, data: Any, at: int, lane: int, parameters: Any) -> float:
    """<x, theta> - y of one lane's record."""

def feature(j: int, data: Any, at: int, parameters: Any) -> float:
    """Coordinate x_j of one lane's record."""

def square_norm(data: Any, at: int, parameters: Any) -> float:
    """||x||^2 of one lane's record."""

def fill_normal(state: Any, parameter: float, out: Any) -> None:
    """A plane of N(0, 1)."""

def fill_exponential(state: Any, parameter: float, out: Any) -> None:
    """A plane of Exponential(1)."""

def density(x: float) -> float:
    """Its derivative."""

def slope(x: float) -> float:
    """Its second derivative."""

def register_array(size: int) -> Any:
    """Array on the stack."""
