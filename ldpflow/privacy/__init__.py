"""Privacy accounting: what a guarantee means in another notion, and what several make together."""

from ldpflow.privacy import gaussian
from ldpflow.privacy.comparison import at_equal_mu
from ldpflow.privacy.gaussian import *  # noqa: F403

__all__ = ["at_equal_mu", *gaussian.__all__]
