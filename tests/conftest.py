"""Fixtures and marks of all tests, and the order of their files."""

import os
import sys
from pathlib import Path
from unittest import mock

import pytest

HERE = Path(__file__).parent


SYSTEM = {"ray_session", "cluster", "proxy", "page"}
"""Fixtures that start Ray, a cluster, a store's server or a browser."""


EARLY = ("faults/test_run_machine", "planning")
"""Files that run first: the longest file, and tests that compile kernels which many others use."""

LATE = ("golden", "random", "store", "study", "test_")
"""Files that run last: golden results, which use kernels of other tests, and short files."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark tests whose fixtures start servers, and order the files for two processes."""
    for item in items:
        if SYSTEM & set(getattr(item, "fixturenames", ())):
            item.add_marker("system")

    def place(item):
        if HERE not in item.path.parents:
            return 0
        path = item.path.relative_to(HERE).as_posix()
        early = [index - len(EARLY) for index, start in enumerate(EARLY) if path.startswith(start)]
        late = [index + 1 for index, start in enumerate(LATE) if path.startswith(start)]
        return (*early, *late, 0)[0]

    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def no_syncing():
    """Files of tests need not survive a power cut, and each sync takes milliseconds."""
    with mock.patch.object(os, "fsync", lambda descriptor: None):
        yield


@pytest.fixture(scope="session")
def ray_session():
    """Start a local Ray of two cores that tests share. run_study joins a Ray that is running."""
    import ray

    # Without address="local" Ray would join a cluster that runs on this machine.
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def mode_of_tokens():
    """Remove RAY_AUTH_MODE that a test's job client has set, unless Ray runs."""
    before = os.environ.get("RAY_AUTH_MODE")
    yield
    ray = sys.modules.get("ray")
    if before is None and (ray is None or not ray.is_initialized()):
        os.environ.pop("RAY_AUTH_MODE", None)


@pytest.fixture(autouse=True)
def registered_components():
    """Remove the components that a test registers."""
    from ldpflow.study.plugins import FILE_MODULE, REGISTRIES, SOURCES

    modules = {name for name in sys.modules if name.startswith(FILE_MODULE)}
    before = {group: dict(kinds) for group, kinds in REGISTRIES.items()}
    yield
    for group, kinds in REGISTRIES.items():
        kinds.clear()
        kinds.update(before[group])
    for name in [name for name in sys.modules if name.startswith(FILE_MODULE)]:
        if name not in modules:
            del sys.modules[name]
            SOURCES.pop(name, None)
