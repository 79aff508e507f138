"""Ray starts once per session, small and without a dashboard, and only what was started is stopped."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(scope="session")
def ray_session():
    """A local Ray of two cores that tests share; run_study joins a Ray that is already there."""
    import ray

    # "local": without it Ray would join whatever cluster this machine happens to run.
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def registered_components():
    """Components that a test registers are gone after it."""
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
