"""A study to start from, and changed copies of it."""

import copy
import sys

BASE = {
    "name": "base",
    "seed": 7,
    "replicates": 100,
    "problem": {"kind": "quantile", "tau": [0.5, 0.9]},
    "mechanism": {"kind": "randomized_response", "epsilon": [0.5, 1]},
    "algorithm": {"kind": "ldp_sgd", "gamma": 0.6},
    "grid": {"n": [1e3, 1e5], "level": [0.9, 0.95]},
    "method": [{"kind": "BB", "beta": [0.65, 0.75], "B": 200}, {"kind": "BM"}, {"kind": "SN"}],
}


def changed(**paths):
    """Copy of BASE in which each ``table__key`` has a new value. The value ``...`` deletes the key."""
    mapping = copy.deepcopy(BASE)
    for path, value in paths.items():
        *tables, key = path.split("__")
        target = mapping
        for table in tables:
            target = target[table]
        if value is ...:
            del target[key]
        else:
            target[key] = value
    return mapping


def quantile_path(n=2e5, c=1.0, theta0=0.0, epsilon=1, seed=7, methods=({"kind": "oracle"},), **problem):
    """Study of LDP-SGD with randomised response for one quantile, by default the median."""
    from ldpflow.study import Study

    mapping = changed(
        seed=seed,
        problem={"kind": "quantile", "tau": 0.5} | problem,
        mechanism={"kind": "randomized_response", "epsilon": epsilon},
        algorithm={"kind": "ldp_sgd", "gamma": 0.51, "c": c, "theta0": theta0},
        grid={"n": [n], "level": [0.9]},
        method=list(methods),
    )
    return Study.from_mapping(mapping)


def small(**changes):
    """Study of the median with 100 users and 8 replicates; ``changes`` replaces arguments."""
    import ldpflow as lf

    settings = {"problem": lf.Quantile(), "mechanism": lf.RandomizedResponse(epsilon=1.0)}
    settings |= {"algorithm": lf.LdpSgd(), "methods": lf.SelfNormalization(), "n": 100, "replicates": 8}
    return lf.Study(**settings | changes)


def forget_plugins(*kinds):
    """Unload plug-in files and the components ``kinds``, as in a new process."""
    from ldpflow.study.plugins import FILE_MODULE, REGISTRIES, SOURCES

    for name in [name for name in sys.modules if name.startswith(FILE_MODULE)]:
        del sys.modules[name]
        SOURCES.pop(name, None)
    for registry in REGISTRIES.values():
        for kind in kinds:
            registry.pop(kind, None)
