"""Compiled modules, generated from the package's own sources and cached per node.

A kernel is a recursion, a gradient, a randomiser and running sums compiled as one module. Numba's
disk cache misses whenever a kernel is built by closing over functions, and serves stale code when a
function it calls changes in another file. So each kernel's source is written out as a module file of
its own, under a folder that is named by a hash of all the sources and of what compiles them; a
lock lets one process compile while the others wait; what is compiled is loaded without it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

from ldpflow.errors import LdpflowError

__all__ = ["cache_folder", "compiled", "load"]

# The packages whose functions end up in compiled code.
PACKAGES = ("random", "problems", "mechanisms", "algorithms", "kernels", "intervals", "simulators")


def sources_digest() -> str:
    """Hash of every source that kernels are made of."""
    digest = hashlib.sha256()
    here = Path(__file__).parents[1]
    files = [f for package in PACKAGES for f in sorted((here / package).rglob("*.py"))]
    for file in files:
        digest.update(str(file.relative_to(here)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def cache_folder() -> Path:
    """Folder of compiled kernels: $LDPFLOW_CACHE_DIR, or a private folder of the node's own disk.

    Raises
    ------
    LdpflowError
        If the folder exists but belongs to somebody else, who could then choose what runs.
    """
    import llvmlite.binding
    import numba

    base = os.environ.get("LDPFLOW_CACHE_DIR")
    root = Path(base) if base else Path(tempfile.gettempdir()) / f"ldpflow-{os.getuid()}"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise LdpflowError(f"{root} belongs to another user; set LDPFLOW_CACHE_DIR to a folder of your own")
    cpu = os.environ.get("NUMBA_CPU_NAME") or llvmlite.binding.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    version = f"{sys.version_info[:3]}/{numba.__version__}/{cpu}/{features}"
    name = hashlib.sha256(f"{sources_digest()}/{version}".encode()).hexdigest()[:20]
    folder = root / f"kernels-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


class Lock:
    """Exclusive lock on the cache folder, released by the kernel if the process dies."""

    def __enter__(self) -> None:
        import fcntl

        self.file = open(cache_folder() / "lock", "a")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *exception: object) -> None:
        self.file.close()


def load(source: str) -> ModuleType:
    """Import a generated module; the same source is the same file, and one module per process."""
    name = "ldpflow_kernel_" + hashlib.sha256(source.encode()).hexdigest()[:20]
    if name in sys.modules:
        return sys.modules[name]
    file = cache_folder() / f"{name}.py"
    ready = file.with_suffix(".ready")
    if ready.exists():
        # Compiled by somebody: many processes may load it at once.
        return imported(name, file)
    with Lock():
        if not file.exists():
            # Numba compares the file's time stamp with its index: write it once only.
            temporary = file.with_suffix(f".{os.getpid()}")
            temporary.write_text(source)
            os.replace(temporary, file)
        module = imported(name, file)
        ready.touch()
    return module


def imported(name: str, file: Path) -> ModuleType:
    """Import a file; its kernels declare their signatures, so that this compiles or loads them."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def compiled(source: str, function: str) -> Callable[..., None]:
    """One function of a generated module."""
    result: Callable[..., None] = getattr(load(source), function)
    return result
