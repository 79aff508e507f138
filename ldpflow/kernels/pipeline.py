"""The passes with which Numba compiles a kernel: one function without closures or array expressions.

Numba's own pipeline has passes for those and for branches over types, which take a third of the time.
A kernel that this one cannot compile is compiled by that (.cache).
"""

from __future__ import annotations

from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import (
    AnnotateTypes,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA, TranslateByteCode

__all__ = ["KernelCompiler"]

PASSES = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    ReconstructSSA,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    AnnotateTypes,
    NativeLowering,
    NoPythonBackend,
)


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """From bytecode to machine code with the passes that a kernel needs."""

    def define_pipelines(self) -> list[PassManager]:
        """The only pipeline."""
        manager = PassManager("kernel")
        for step in PASSES:
            manager.add_pass(step, step.__name__)
        manager.finalize()
        return [manager]
