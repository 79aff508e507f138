"""A broken mechanism: the noise that clipping calls for, without the clipping."""

from typing import Literal

from ldpflow.components.mechanisms.clipped_gaussian import ClippedGaussian
from ldpflow.numerics.streams import LANES, STRIDE


class Unclipped(ClippedGaussian):
    kind: Literal["unclipped"] = "unclipped"


def randomise(kernel, g, noise, at, lane, mechanism, counts):
    for j in range(kernel.D):
        g[j * LANES + lane] += mechanism.deviation * noise[j * STRIDE + at]
