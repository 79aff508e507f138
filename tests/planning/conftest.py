"""Plans of the fast tests resample few pilots and compare few protocols, since each protocol is compiled."""

import pytest

from ldpflow.components.protocols import PROTOCOLS
from ldpflow.practice.planning import compare, sources

FEW = {name: PROTOCOLS[name] for name in ("rounds", "haar")}


@pytest.fixture(scope="package", autouse=True)
def small_plans():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "RESAMPLES", 40)
        patch.setattr(compare, "PROTOCOLS", FEW)
        yield
