"""Kernels as plain Python: the same functions, with the same bits, without a compiler.

tests/kernels compares the bits. A few hundred steps take less time than compiling does.
"""

from functools import partial
from types import SimpleNamespace
from unittest import mock

from ldpflow.numerics.specialise import KernelPart
from ldpflow.simulators import finite_sum, one_pass


def uncompiled(case):
    """The case as a namespace of plain Python functions."""
    namespace = SimpleNamespace()

    def plain(value):
        if isinstance(value, tuple):
            return tuple(plain(item) for item in value)
        if isinstance(value, KernelPart):
            own = namespace if value.case is None else uncompiled(value.case)
            return bound(value.function, own)
        return bound(value, namespace)

    def bound(function, own):
        code = getattr(function, "__code__", None)
        takes = code is not None and code.co_varnames[:1] == ("kernel",)
        return partial(function, own) if takes else function

    for name, value in case.values:
        setattr(namespace, name, plain(value))
    return namespace


def kernel_of(entry, case, places):
    """The entry of a kernel; parameters that it hands to its recursion in these places have names there."""
    kernel, layouts = uncompiled(case), dict(case.layouts)
    recursion = kernel.recursion

    def named(layout, values):
        parts = {
            name: values[start] if size is None else values[start : start + size]
            for name, start, size in layout
        }
        return SimpleNamespace(**parts)

    def with_names(*arguments):
        recursion(*(named(layouts[places[k]], a) if k in places else a for k, a in enumerate(arguments)))

    kernel.recursion = with_names
    return partial(entry, kernel)


def one_pass_kernel(path, sums, perturbed=False):
    case = one_pass.kernel_case(path, sums, perturbed)
    return kernel_of(one_pass.run_lanes, case, {2: "problem", 3: "mechanism", 4: "settings"})


def finite_sum_kernel(problem, algorithm, settings, **others):
    case = finite_sum.steps_case(problem, algorithm, settings, others)
    return kernel_of(finite_sum.run_lanes, case, {3: "problem", 4: "settings"})


def use(monkeypatch):
    """Run the kernels of sweeps as plain Python until the end of a test."""
    for module, kernel in ((one_pass, one_pass_kernel), (finite_sum, finite_sum_kernel)):
        monkeypatch.setattr(module, kernel.__name__, kernel)


def run_path(*arguments, **options):
    with mock.patch.object(one_pass, "one_pass_kernel", one_pass_kernel):
        return one_pass.run_path(*arguments, **options)
