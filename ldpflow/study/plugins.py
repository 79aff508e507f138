"""Plug-ins: components from Python files, modules and installed packages outside ldpflow.

A plug-in registers its classes with :func:`register`. Each process that computes a study receives the sources
of the plug-ins that the study uses. The run keeps these sources. A sweep that continues the run compares them
with its own.

A notebook or a script may define a component too. The source of the component is the class, with the
top-level statements of the same notebook cell or script that define the names in the class. Names from other
notebook cells are left out.
"""

from __future__ import annotations

import ast
import copyreg
import hashlib
import importlib
import importlib.util
import inspect
import itertools
import linecache
import shlex
import sys
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal, TypeVar, get_args, get_origin

from ldpflow.columns import Column
from ldpflow.components.problems.quantile import BUNDLED_LAWS
from ldpflow.components.problems.standard_laws import DATA_LAWS
from ldpflow.documents import read_text
from ldpflow.errors import InputError
from ldpflow.numerics.kernels import check_parameters, kernel_function
from ldpflow.settings import Settings, source_file
from ldpflow.study.entry import GROUPS

MAIN = "__main__"

OWN_FUNCTIONS = {
    *("gradient", "gradient_bit", "bit_probability", "residual", "feature", "square_norm"),
    *("randomise", "randomise_probability", "recursion", "sample"),
}
"""Kernel functions. Each belongs to the component in its file, although the class does not name it."""

ENTRY_POINTS = "ldpflow.plugins"
"""Group of entry points with which an installed package names its plug-in modules."""

FILE_MODULE = "ldpflow_plugin_"
"""Beginning of the module name of a plug-in file. The stem of the file follows."""

REGISTRIES: dict[str, Mapping[str, type[Settings]]] = {**GROUPS, "law": DATA_LAWS}
"""Components by group and kind. The groups are the tables of a study file, and the laws of data."""

COMPONENTS = "Problem, DataLaw, Mechanism, Algorithm, Protocol or IntervalMethod"

BUDGET = {"epsilon", "mu", "delta"}
"""Settings that mechanisms and algorithms may both have: the columns with the guarantee of a path."""

NOT_PLUGINS = {"builtins", "pydantic", "abc", "typing"}

Component = TypeVar("Component", bound=type[Any])


def is_importable(component: Settings) -> bool:
    """Whether another process can run a component: it has a file to compile, or no kernel function."""
    return type(component).__module__ != MAIN or component.group == "method"


def check_importable(components: Iterable[Settings]) -> None:
    for component in components:
        if not is_importable(component):
            raise InputError(
                f"{component.group}.kind", component.kind, "a component in a file of its own on Ray",
                "Ray's workers cannot compile what a notebook or a script defines. Write the class with its "
                "kernel function to a file (in a notebook: %%writefile my_plugin.py at the top of the cell) "
                "and load the file with lf.load_plugin('my_plugin.py'), or compute in this process.",
            )  # fmt: skip


def source_of(component: type) -> str | None:
    files = [v.__code__.co_filename for v in vars(component).values() if isinstance(v, FunctionType)]
    if not files:
        return None
    text = "".join(linecache.getlines(files[0]))
    try:
        statements = ast.parse(text).body
    except SyntaxError:
        return None
    wanted = {component.__name__}
    if getattr(component, "group", "") != "method":
        wanted |= OWN_FUNCTIONS
    chosen: set[ast.stmt] = set()
    while found := [one for one in statements if one not in chosen and defined_by(one) & wanted]:
        chosen.update(found)
        wanted |= {node.id for one in found for node in ast.walk(one) if isinstance(node, ast.Name)}
    return "".join(f"{lines_of(one, text)}\n" for one in statements if one in chosen) or None


def lines_of(statement: ast.stmt, text: str) -> str:
    decorators = getattr(statement, "decorator_list", ())
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(text.splitlines()[first - 1 : statement.end_lineno])


def defined_by(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(name.asname or name.name).partition(".")[0] for name in statement.names}
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return set()


def register(component: Component) -> Component:
    """Make a problem, data law, mechanism, algorithm, protocol or interval method known by its ``kind``.

    Use it as a decorator of the class.

    Raises
    ------
    InputError
        If the class is not such a component or lacks a method, or if its kind, a setting, a diagnostic or a
        summary has a name that is taken.
    """
    where = f"{source_file(component)}: {component.__name__}"
    group = component.group if inspect.isclass(component) and issubclass(component, Settings) else ""
    if group not in REGISTRIES:
        raise InputError(where, component, f"a subclass of {COMPONENTS}")
    kind = check_kind(component, where)
    if group == "law" and kind in BUNDLED_LAWS:
        raise InputError(f"{where}.kind", kind, "a kind of its own; ldpflow has this one")
    check_methods(component, where)
    check_columns(component, where)
    if group == "law" and (others := {c.name for c in component.setting_columns()} - {"shape"}):
        raise InputError(where, sorted(others), "`shape` as its only setting")
    registry: Any = REGISTRIES[group]
    before = registry.get(kind)
    # A cell of a notebook that runs again replaces its class.
    if before is not None and (is_bundled(before) or place_of(before) != place_of(component)):
        raise InputError(f"{where}.kind", kind, f"a kind of its own; {origin(before)} has this one")
    registry[kind] = component
    if component.__module__ == MAIN:
        name = f"{MAIN}.{component.__name__}"
        text = source_of(component)
        SOURCES[name] = None if text is None else Plugin(name, ((f"{component.__name__}.py", text),))
    copyreg.pickle(component, reduce_component)
    return component


def reduce_component(component: Settings) -> tuple[Any, ...]:
    """Pickle a component with the sources of its plug-in. Cloudpickle sends a notebook's class."""
    kind = type(component)
    plugin = plugin_of_class(kind)
    if plugin is None:
        return object.__reduce_ex__(component, 4)  # type: ignore[return-value]
    return rebuild, (plugin, kind if kind.__module__ == MAIN else place_of(kind), component.model_dump())


def rebuild(plugin: Plugin, kind: Any, values: dict[str, Any]) -> Any:
    """Make a pickled component again. ``kind`` is its class, or the module and name of the class."""
    if isinstance(kind, tuple):
        plugin.load()
        kind = getattr(importlib.import_module(kind[0]), kind[1])
    else:
        SOURCES[plugin.name] = plugin
    return kind.model_validate(values)


def plugin_of_class(kind: type) -> Plugin | None:
    if kind.__module__ == MAIN:
        return SOURCES.get(f"{MAIN}.{kind.__name__}")
    return plugin_of(sys.modules[kind.__module__])


@dataclass(frozen=True)
class Plugin:
    """The sources of a plug-in, with which another process loads it."""

    module: str
    """Name of its module."""
    files: tuple[tuple[str, str], ...]
    """Path and text of each source. A package has several."""

    @property
    def name(self) -> str:
        return self.module.removeprefix(FILE_MODULE)

    @property
    def version_name(self) -> str:
        return f"plugin {self.name}"

    def folder(self, sha256: str | None = None) -> str:
        return f"plugins/{self.name}-{(sha256 or self.sha256)[:12]}"

    @cached_property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for path, text in self.files:
            digest.update(f"{path}\0{len(text)}\0{text}".encode())
        return digest.hexdigest()

    def load(self) -> None:
        """Import the plug-in, from these sources if it is not installed here. Refuse another version."""
        if self.module not in sys.modules and not self.is_installed():
            root = write_sources(self)
            if self.module.startswith(FILE_MODULE):
                load_file(root / self.files[0][0], self.module)
            else:
                sys.path.insert(0, str(root))
                importlib.invalidate_caches()
        here = plugin_of(importlib.import_module(self.module))
        if here is not None and here.sha256 != self.sha256:
            allowed, hint = f"SHA-256 {self.sha256[:12]}", "Start a new process to use the changed file."
            raise InputError(f"plugins.{self.name}", here.sha256[:12], allowed, hint)

    def is_installed(self) -> bool:
        spec = None
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(self.module)
        origin = None if spec is None else spec.origin
        return origin is not None and sources_at(self.module, Path(origin)) == self


def write_sources(plugin: Plugin) -> Path:
    from ldpflow.numerics.kernels import cache_folder, check_private, read_private, write_private

    folder = cache_folder().parent / f"plugin-{plugin.sha256[:20]}"
    for path, text in plugin.files:
        file = folder / path
        for above in reversed((file.parent, *file.parent.relative_to(folder).parents)):
            (folder / above).mkdir(exist_ok=True, mode=0o700)
            check_private(folder / above)
        if read_private(file) != text.encode():
            write_private(file, text.encode())
    return folder


def load_file(file: Path, name: str | None = None) -> ModuleType:
    """Import a file, or return its module if the file is loaded already. ``name``: its module name."""
    name = name or FILE_MODULE + file.stem.replace("-", "_")
    if name in sys.modules:
        if plugin_of(sys.modules[name]) != sources_at(name, file):
            hint = f"Another file {file.name}, or an earlier version of it, is loaded."
            raise InputError("plugins", str(file), "one version of a plug-in in a process", hint)
        return sys.modules[name]
    sys.modules[name] = module = ModuleType(name)
    module.__file__ = str(file)
    before = registered_components()
    try:
        # An import would read a .pyc file. Its time stamp misses edits within a second.
        exec(compile(file.read_bytes(), str(file), "exec", dont_inherit=True), vars(module))
        check_loaded(module, before, file.name)
    except BaseException as error:
        del sys.modules[name]
        forget_others(before)
        raise import_error(str(file), error) from error
    plugin_of(module)  # keeps the source as it was loaded
    return module


def import_error(where: str, error: BaseException) -> BaseException:
    """Make an InputError of an error in an imported plug-in. Return InputErrors and interrupts unchanged."""
    if isinstance(error, InputError | KeyboardInterrupt):
        return error
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where]
    line = f" in line {lines[-1]}" if lines else ""
    first_line = str(error).partition("\n")[0]
    reason = f"{type(error).__name__}{line}: {first_line}"
    return InputError("plugins", where, "a file ending in .py, or a module, that can be imported", reason)


def load_plugin(source: str) -> ModuleType:
    """Import a plug-in.

    Parameters
    ----------
    source : str
        Path of a ``.py`` file, or the name of a module that can be imported.

    Raises
    ------
    InputError
        If there is no such plug-in, the import fails, or it registers no component.
    """
    if source.endswith(".py") or "/" in source:
        read_text(source, "plugins", "a Python file")  # refuses other kinds of files and large ones
        return load_file(Path(source).resolve())
    there, before = source in sys.modules, registered_components()
    try:
        module = importlib.import_module(source)
        if not there:
            check_loaded(module, before, source)
    except BaseException as error:  # a plug-in may call sys.exit
        raise import_error(source, error) from error
    plugin_of(module)
    return module


def load_plugins(sources: Iterable[str] = ()) -> None:
    load_installed()
    for source in sources:
        load_plugin(source)


@cache
def load_installed() -> None:
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        try:
            point.load()
        except BaseException as error:
            raise import_error(f"entry point {point.name} of {point.value}", error) from error


SOURCES: dict[str, Plugin | None] = {}
"""Plug-ins by module. None: it is no plug-in. Sources are read once, because a file may be edited later."""


def loaded_plugins() -> dict[str, str]:
    return {plugin.name: plugin.sha256 for plugin in SOURCES.values() if plugin is not None}


def plugin_of(module: ModuleType) -> Plugin | None:
    package = module.__name__.partition(".")[0]
    top = sys.modules.get(package, module)
    if top.__name__ not in SOURCES:
        file = getattr(top, "__file__", None) or ""
        has_source = file.endswith(".py") and top.__name__ != MAIN
        SOURCES[top.__name__] = sources_at(top.__name__, Path(file)) if has_source else None
    return SOURCES[top.__name__]


def sources_at(name: str, path: Path) -> Plugin:
    """Read the source of a file. For ``__init__.py``: the sources of all modules of the package."""
    if path.name != "__init__.py":
        return Plugin(name, ((path.name, path.read_text(encoding="utf-8")),))
    root = path.parent
    files = sorted(found for found in root.rglob("*.py") if "__pycache__" not in found.parts)
    texts = ((str(Path(root.name) / f.relative_to(root)), f.read_text(encoding="utf-8")) for f in files)
    return Plugin(name, tuple(texts))


def plugins_of(components: Iterable[Settings]) -> tuple[Plugin, ...]:
    """List the plug-ins of components by name. A component of a notebook is a plug-in of its own."""
    found: dict[str, Plugin] = {}
    for component in used_components(components):
        for base in type(component).__mro__:
            if is_bundled(base) or base.__module__.partition(".")[0] in NOT_PLUGINS:
                continue
            if (plugin := plugin_of_class(base)) is not None:
                found[plugin.module] = plugin
    return tuple(found[name] for name in sorted(found))


def plugin_flags(components: Iterable[Settings]) -> str:
    """Write the part of a command that loads the plug-ins of components from the current folder."""
    found = []
    for plugin in plugins_of(components):
        name = MAIN if plugin.module.startswith(MAIN) else plugin.module
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None or not plugin.module.startswith((FILE_MODULE, MAIN)):
            found.append(plugin.module)
            continue
        path, here = Path(file).resolve(), Path.cwd()
        found.append(str(path.relative_to(here) if path.is_relative_to(here) else path))
    return "".join(f" --plugin {shlex.quote(source)}" for source in dict.fromkeys(found))


def place_of_error(error: BaseException) -> str:
    """Describe in brackets the last line of a traceback that is in a plug-in, or else the last line."""
    names = {name.partition(".")[0] for name, plugin in SOURCES.items() if plugin is not None}
    lines = [*traceback.walk_tb(error.__traceback__)]
    own = [one for one in lines if str(one[0].f_globals.get("__name__")).partition(".")[0] in names]
    if not lines:
        return ""
    frame, number = (own or lines)[-1]
    file = Path(frame.f_code.co_filename)
    text = linecache.getline(str(file), number).strip()  # empty for a notebook's cell in another process
    return f" ({file.name if file.exists() else 'cell'}, line {number}{': ' * bool(text)}{text})"


def used_components(components: Iterable[Settings]) -> list[Settings]:
    return [one for component in components for one in (component, *component.used_components())]


def is_bundled(component: type) -> bool:
    return component.__module__.partition(".")[0] == "ldpflow"


def place_of(component: type) -> tuple[str, str]:
    return component.__module__, component.__qualname__


def origin(component: type) -> str:
    if is_bundled(component):
        return "ldpflow"
    module = component.__module__
    return source_file(component) if module.startswith((FILE_MODULE, "__main__")) else module


def check_kind(component: type[Settings], where: str) -> str:
    """Return the kind of a component. Refuse a kind that is not a name, or not in its own annotation."""
    field = component.model_fields["kind"]
    kind = field.default
    named = get_args(field.annotation) if get_origin(field.annotation) is Literal else (kind,)
    if not isinstance(kind, str) or not kind.replace("-", "_").isidentifier() or kind not in named:
        allowed = f"a name that its annotation has: {', '.join(map(repr, named))}"
        raise InputError(f"{where}.kind", kind, allowed, 'Write: kind: Literal["mine"] = "mine"')
    return kind


def check_methods(component: type[Settings], where: str) -> None:
    missing = sorted(getattr(component, "__abstractmethods__", ()))
    if component.group == "method" and not hasattr(component, "record"):
        missing.append("record (derive from PathIntervalMethod)")
    if missing:
        raise InputError(where, component.__name__, f"needs {', '.join(missing)}")


def check_columns(component: type[Settings], where: str) -> None:
    """Refuse settings, diagnostics and summaries with the names of other columns.

    A column of a bundled component of the same group may be used again with its type. A method that extends
    BB has ``beta``, for example.
    """
    from ldpflow.store.schema import RESERVED

    group = component.group
    if group not in GROUPS:
        return
    own: set[tuple[str, str]] = set()
    taken = set(RESERVED)
    for other, kinds in GROUPS.items():
        found = {pair for kind in filter(is_bundled, kinds.values()) for pair in contents(kind)}
        own = found if other == group else own
        shared = set() if other == group or "method" in (group, other) else BUDGET
        taken |= {name for name, _ in found} - shared
    declared = set()
    for name, content in contents(component):
        alike = (name, content) in own and name not in RESERVED
        if (name in taken and not alike) or (name in declared and content == SUMMARY):
            hint = f"Another column of ldpflow or of this {group} has this name, and this is {content}."
            raise InputError(f"{where}.{name}", name, "a name that no other column has", hint)
        declared.add(name)


SUMMARY = "a summary"


def contents(component: Any) -> list[tuple[str, str]]:
    """List the columns of a component and their summaries: the name and, in words, the contents."""
    further = [getattr(component, name, ()) for name in ("diagnostics", "derived", "measures")]
    columns: list[Column] = [*component.setting_columns(), *itertools.chain(*further)]
    found = [(c.name, f"a {c.type} {'setting' if c.identifies else 'value'}") for c in columns]
    return found + [(summary.name, SUMMARY) for column in columns for summary in column.summaries]


KERNEL_FUNCTION = {"problem": "gradient", "mechanism": "randomise", "algorithm": "recursion", "law": "sample"}
"""Kernel function in the file of a component, by group."""


def check_kernel_function(component: Any) -> None:
    """Refuse a component of a loaded file whose kernel function is missing or has other parameters."""
    name = KERNEL_FUNCTION.get(component.group)
    if name is None or getattr(component, "family", "one_pass") != "one_pass":
        return
    function = kernel_function(component, name)
    if inspect.isfunction(function):
        check_parameters(function, name)
    elif component.group in ("mechanism", "law"):  # a problem may have other kernel functions
        where = f"{source_file(component)}: {component.__name__}"
        raise InputError(where, component.__name__, f"needs the kernel function {name} in its file")


def components_of(module: ModuleType) -> list[type[Settings]]:
    package = f"{module.__name__}."
    return [kind for kind in registered_components() if f"{kind.__module__}.".startswith(package)]


def registered_components() -> list[type[Settings]]:
    return [kind for registry in REGISTRIES.values() for kind in registry.values()]


def forget_others(known: list[type[Settings]]) -> None:
    """Remove components that are not ``known`` from the registries: their file could not be loaded."""
    for registry in REGISTRIES.values():
        kinds: Any = registry
        for kind in [kind for kind, component in kinds.items() if component not in known]:
            del kinds[kind]


def check_loaded(module: ModuleType, before: list[type[Settings]], source: str) -> None:
    """Refuse a plug-in that registers no component, or one whose kernel function does not fit."""
    new = [component for component in registered_components() if component not in before]
    for component in new:
        check_kernel_function(component)
    if not new and not components_of(module):
        hint = "Write @lf.register above its classes."
        raise InputError("plugins", source, "a plug-in that registers components", hint)
