"""Random numbers and elementary functions that kernel functions may call.

Their modules import Numba, which takes long. A module is imported when one of its functions is first used, so
that a study can be read without Numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Deferred:
    """Function whose module is imported when the function is first used."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def load(self) -> Any:
        return getattr(import_module(self.module), self.name)

    def __call__(self, *arguments: Any) -> Any:
        return self.load()(*arguments)


bits_of = Deferred("ldpflow.numerics.elementary", "bits_of")
float_of = Deferred("ldpflow.numerics.elementary", "float_of")
cdf_normal = Deferred("ldpflow.numerics.distributions", "cdf_normal")
exp = Deferred("ldpflow.numerics.elementary", "exp")
log = Deferred("ldpflow.numerics.elementary", "log")
fill_normal = Deferred("ldpflow.numerics.samplers", "fill_normal")
draw_order = Deferred("ldpflow.numerics.noise_nodes", "draw_order")
draw_subset = Deferred("ldpflow.numerics.noise_nodes", "draw_subset")
node_normals = Deferred("ldpflow.numerics.noise_nodes", "node_normals")
fma = Deferred("ldpflow.numerics.elementary", "fma")
fill_words = Deferred("ldpflow.numerics.samplers", "fill_words")
fraction_of = Deferred("ldpflow.numerics.samplers", "fraction_of")
fill_uniform = Deferred("ldpflow.numerics.samplers", "fill_uniform")
step_sizes = Deferred("ldpflow.numerics.samplers", "step_sizes")
register_array = Deferred("ldpflow.numerics.registers", "register_array")
scratch_array = Deferred("ldpflow.numerics.registers", "scratch_array")
