"""Compiled kernels and their cache, a folder that only this user may write to.

A kernel is compiled from a module in this folder, which a user can read. The module has every function of the
kernel, rewritten for the case (ldpflow.numerics.specialise), and imports the objects that the functions use,
with a digest of each object. The name of the module is the SHA-256 of its text, the versions of Python and
Numba, and the classes of named tuples among its arguments. Numba keeps the machine code in ``__pycache__``
next to the module. Since another kernel has another name, Numba does not load machine code of another kernel.
"""

from __future__ import annotations

import ast
import builtins
import errno
import fcntl
import hashlib
import inspect
import linecache
import os
import re
import secrets
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.errors import InputError, LdpflowError
from ldpflow.numerics.specialise import Case, Imported, Layout, Specialised, Substitution, specialise
from ldpflow.settings import Parameters


def layout_of(parameters: Parameters) -> Layout:
    layout = []
    place = 0
    for name, value in parameters.items():
        length = len(value) if isinstance(value, tuple) else None
        layout.append((name, place, length))
        place += 1 if length is None else length
    return tuple(layout)


def size_of(layout: Layout) -> int:
    return sum(1 if length is None else length for _, _, length in layout)


def flat(parameters: Parameters) -> NDArray[np.float64]:
    values: list[float] = []
    for value in parameters.values():
        values.extend(value if isinstance(value, tuple) else (value,))
    return np.array(values, dtype=np.float64)


PARAMETERS = {
    "gradient": ("g", "theta", "data", "at", "lane", "problem"),
    "randomise": ("g", "noise", "at", "lane", "mechanism", "counts"),
    "recursion": ("users", "noises", "problem", "mechanism", "settings", "record"),
    "sample": ("base", "shape"),
}
"""Parameters of kernel functions after the optional first parameter ``kernel``."""

BY_NAME = ("problem", "mechanism", "settings")
"""Parameters that must have these names. Their attributes become places in flat arrays."""


def kernel_function(component: type, name: str) -> Any:
    """Find a kernel function in the module of a class or of its base classes, or return None."""
    for ancestor in component.__mro__:
        function = getattr(sys.modules[ancestor.__module__], name, None)
        if function is not None:
            return function
    return None


def part_of(component: object, name: str, required: bool = True) -> Any:
    kind = type(component)
    function = kernel_function(kind, name)
    if function is None and required:
        file = getattr(sys.modules[kind.__module__], "__file__", kind.__module__)
        raise LdpflowError(f"{file} lacks the kernel function {name} of {kind.__name__}")
    return function


def check_parameters(function: Any, name: str) -> None:
    """Refuse a kernel function whose parameters differ from :data:`PARAMETERS`."""
    found = list(inspect.signature(function).parameters)
    given = found[1:] if found[:1] == ["kernel"] else found
    wanted = PARAMETERS[name]
    by_name = [w for w in wanted if w in BY_NAME]
    if len(given) == len(wanted) and all(given[wanted.index(w)] == w for w in by_name):
        return
    hint = f"Do not rename {' and '.join(f'`{w}`' for w in by_name)}." if by_name else ""
    raise InputError(
        f"{Path(function.__code__.co_filename).name}: {name}", f"({', '.join(found)})",
        f"the parameters ({', '.join(('kernel', *wanted))}); kernel may be left out", hint,
    )  # fmt: skip


def cache_location() -> Path:
    """Folder of compiled kernels: in $LDPFLOW_CACHE_DIR, by default in the folder for temporary files."""
    base = os.environ.get("LDPFLOW_CACHE_DIR")
    root = Path(base) if base else Path(tempfile.gettempdir()) / f"ldpflow-{os.getuid()}"
    return root.absolute() / "kernels"


@cache
def cache_folder() -> Path:
    """Make the folder of compiled kernels. It is refused if another user could change or replace it."""
    folder = cache_location()
    root = folder.parent
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for above in root.parent.resolve(), *root.parent.resolve().parents:
            check_private(above, above=True)
        check_private(root)
        folder.mkdir(mode=0o700, exist_ok=True)
        check_private(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
    except OSError as error:
        reason = f"{error.strerror or error}."
        raise InputError("LDPFLOW_CACHE_DIR", str(root), "a folder that can be written to", reason) from None
    return folder


def check_private(folder: Path, above: bool = False) -> None:
    """Refuse a folder that others may change.

    A folder ``above`` the cache may belong to root, and others may write to it if it has a sticky bit.
    """
    found = os.lstat(folder)
    own = found.st_uid == os.getuid() or (above and found.st_uid == 0)
    shared = found.st_mode & 0o022 and not (above and found.st_mode & stat.S_ISVTX)
    if shared or not own or not stat.S_ISDIR(found.st_mode):
        allowed = "a folder that only you can write to, in folders that no other user can rename"
        facts = f"It has the mode {stat.filemode(found.st_mode)} and the owner {found.st_uid}."
        raise InputError("LDPFLOW_CACHE_DIR", str(folder), allowed, facts)


def read_private(file: Path) -> bytes | None:
    """Read a file of the cache. None if it does not exist or another user could have written it."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise
    with open(descriptor, "rb") as source:
        found = os.fstat(descriptor)
        private = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
        return source.read() if private else None


def write_private(file: Path, content: bytes) -> None:
    temporary = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(temporary, flags, 0o600), "wb") as target:
        target.write(content)
    os.replace(temporary, file)


@contextmanager
def hold_lock(file: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file. If the process dies, the operating system releases the lock."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "a") as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


HEAD = """# Kernel made by ldpflow from the functions named below, for one case.
# Deleting it costs compiling it again.
"""
# A check for division by zero would stop vectorisation: numpy's error model has none. Entries for calls from
# Python and C take time to compile. Inner functions do not need them.
INNER = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
ENTRY = {"error_model": "numpy", "no_cfunc_wrapper": True, "nogil": True, "cache": True}

KERNELS: dict[tuple[str, Any], Callable[..., None]] = {}
"""Kernels of this process by digest and signature."""

LOADING = threading.Lock()


class ModuleText:
    def __init__(self, entry: Specialised) -> None:
        self.names: dict[int, str] = {}  # global names by the id of their objects
        self.functions: list[Specialised] = []  # each after the functions that it calls
        self.imports: list[str] = []
        self.written: dict[str, str] = {}  # names of functions by their texts
        self.blocks: list[str] = []
        self.add(entry)
        self.taken = {name for found in self.functions for name in found.function.__code__.co_varnames}
        self.taken |= set(dir(builtins))
        for found in self.functions:
            self.write(found, ENTRY if found is entry else INNER)
        imports = "\n".join(["import numba", *sorted(self.imports)])
        self.text = "\n\n".join([HEAD + imports, *self.blocks]) + "\n"

    def add(self, found: Specialised) -> None:
        if found in self.functions:
            return
        for _, target in sorted(found.references.items()):
            if isinstance(target, Specialised):
                self.add(target)
        self.functions.append(found)

    def free_name(self, name: str) -> str:
        number, chosen = 1, name
        while chosen in self.taken:
            number += 1
            chosen = f"{name}_{number}"
        self.taken.add(chosen)
        return chosen

    def name_of(self, target: Specialised | Imported) -> str:
        if isinstance(target, Specialised):
            return self.names[id(target)]
        if id(target.value) not in self.names:
            chosen = self.names[id(target.value)] = self.free_name(target.name)
            self.imports.append(import_line(target, chosen))
        return self.names[id(target.value)]

    def write(self, found: Specialised, options: dict[str, Any]) -> None:
        """Write a function with a comment that names its module. Equal texts are written once."""
        names = {name: ast.Name(self.name_of(target)) for name, target in found.references.items()}
        tree = Substitution(names).visit(ast.parse(ast.unparse(found.tree)).body[0])
        arguments = ", ".join(f"{option}={value!r}" for option, value in (options | found.options).items())
        head = f"# {tree.name} of {found.function.__module__}\n@numba.njit({arguments})"
        key = f"{head}\n{ast.unparse(tree)}"
        if key not in self.written:
            tree.name = self.written[key] = self.free_name(tree.name)
            self.blocks.append(f"{head}\n{ast.unparse(tree)}")
        self.names[id(found)] = self.written[key]

    def place_errors(self, message: str, file: Path) -> str:
        """Replace places in the kernel's module by places in source files, in an error message of Numba."""
        places: dict[int, str] = {}
        made = {node.name: node for node in ast.parse(self.text).body if isinstance(node, ast.FunctionDef)}
        for found in self.functions:
            statements = (
                [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
                for tree in (found.tree, made[self.names[id(found)]])
            )
            source = found.function.__code__.co_filename
            for ours, theirs in zip(*statements, strict=True):
                places[theirs.lineno] = f'{source}", line {ours.lineno}'
        pattern = rf'[^\s"]*{re.escape(file.name)}(?:", line | \()(\d+)\)?'
        return re.sub(pattern, lambda place: places.get(int(place[1]), place[0]), message)


def import_line(target: Imported, name: str) -> str:
    if isinstance(target.value, ModuleType):
        version = getattr(target.value, "__version__", "")
        return f"import {target.value.__name__} as {name}  # {version}"
    renamed = "" if name == target.name else f" as {name}"
    return f"from {target.module} import {target.name}{renamed}  # {digest_of(target)}"


def digest_of(target: Imported) -> str:
    """Digest of an object: of its value if it is plain data, else of the files that define it."""
    value = target.value
    if isinstance(value, np.ndarray):
        text = f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, (str, bytes, int, float, tuple, np.generic, type(None))):
        text = repr(value)
    else:
        function = getattr(value, "__wrapped__", value)
        cells = inspect.getclosurevars(function).nonlocals if isinstance(function, FunctionType) else {}
        home = getattr(value, "__module__", None) or ""
        text = f"{cells} {file_digest(target.module)} {file_digest(home)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@lru_cache(maxsize=256)
def file_digest(module: str) -> str:
    """Version of NumPy or Numba for their modules, else digest of the module's source."""
    package = module.partition(".")[0]
    if package in ("numpy", "numba"):
        return str(sys.modules[package].__version__)
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return hashlib.sha256("".join(linecache.getlines(file)).encode()).hexdigest()


@lru_cache(maxsize=1024)
def module_of(entry: Specialised, classes: tuple[Any, ...] = ()) -> tuple[str, ModuleText]:
    """Digest and text of the module of a kernel. ``classes`` are named tuples among its arguments."""
    import numba

    made = ModuleText(entry)
    lines = [f"{sys.version} {numba.__version__}"]
    # Numba's cache finds classes by module and name, and machine code reads their fields by place.
    lines += [f"{one.__module__} {one.__qualname__} {one._fields}" for one in classes]
    return hashlib.sha256("\n".join([*lines, made.text]).encode()).hexdigest()[:40], made


def named_tuples(signature: Any) -> Iterator[type]:
    if hasattr(signature, "instance_class"):
        yield signature.instance_class
    for argument in getattr(signature, "args", getattr(signature, "types", ())):
        yield from named_tuples(argument)


def compile_kernel(function: Callable[..., Any], case: Case, signature: Any) -> Callable[..., None]:
    """Load a kernel from the cache, or compile it.

    ``function`` is the entry of the kernel. ``signature`` is a string or a Numba type. While one process
    compiles a kernel, other processes wait for it. If Numba cannot compile it, an error names file and line.
    """
    entry = specialise(function, case, "called")
    digest, made = module_of(entry, tuple(named_tuples(signature)))
    with LOADING:
        if (digest, signature) not in KERNELS:
            file = cache_folder() / f"{digest}.py"
            try:
                with hold_lock(file.with_suffix(".lock")):
                    KERNELS[digest, signature] = load_kernel(made, entry, file, signature)
            except OSError as error:
                allowed = "a folder on a disk with free space"
                reason = f"{error.strerror}."
                raise InputError("LDPFLOW_CACHE_DIR", str(file.parent), allowed, reason) from None
        return KERNELS[digest, signature]


def load_kernel(made: ModuleText, entry: Specialised, file: Path, signature: Any) -> Callable[..., None]:
    """Run the module of a kernel, and load or compile its machine code."""
    import numba

    if read_private(file) != made.text.encode():
        write_private(file, made.text.encode())
    remove_damaged(file)
    module = ModuleType(f"ldpflow_kernel_{file.stem}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # Numba finds the module of loaded machine code by name
    settings: Any = numba.config
    elsewhere = settings.CACHE_DIR
    settings.CACHE_DIR = ""  # Numba then writes to the checked folder, next to the file
    try:
        exec(compile(made.text, str(file), "exec"), vars(module))
    finally:
        settings.CACHE_DIR = elsewhere
    kernel = getattr(module, made.names[id(entry)])
    try:
        kernel.compile(signature)
    except numba.errors.NumbaError as error:
        raise LdpflowError(made.place_errors(str(error), file)) from None
    kernel.disable_compile()
    if kernel.stats.cache_misses:
        write_private(file.with_suffix(".sha256"), machine_code_digest(file))
    return kernel  # type: ignore[no-any-return]


def machine_code(file: Path) -> list[Path]:
    return sorted((file.parent / "__pycache__").glob(f"{file.stem}.*.nb?"))


def machine_code_digest(file: Path) -> bytes:
    content = (b"%s %s" % (code.name.encode(), read_private(code) or b"") for code in machine_code(file))
    return hashlib.sha256(b"".join(content)).hexdigest().encode()


def remove_damaged(file: Path) -> None:
    """Remove machine code whose digest is not the stored one."""
    if (folder := file.parent / "__pycache__").exists():
        check_private(folder)
    if read_private(file.with_suffix(".sha256")) != machine_code_digest(file):
        for code in machine_code(file):
            code.unlink()
