"""Local randomisers: one file each, registered here by its kind."""

from ldpflow.mechanisms.cells import Cells
from ldpflow.mechanisms.clipped_gaussian import ClippedGaussian
from ldpflow.mechanisms.deployed_response import DeployedResponse
from ldpflow.mechanisms.gaussian import Gaussian
from ldpflow.mechanisms.laplace import Laplace
from ldpflow.mechanisms.mechanism import Mechanism, PrivacyStatement
from ldpflow.mechanisms.none import NoMechanism
from ldpflow.mechanisms.randomized_response import RandomizedResponse

__all__ = ["MECHANISMS", "Mechanism", "PrivacyStatement"]

MECHANISMS: dict[str, type[Mechanism]] = {
    cls.model_fields["kind"].default: cls
    for cls in (
        RandomizedResponse,
        Cells,
        DeployedResponse,
        Laplace,
        Gaussian,
        ClippedGaussian,
        NoMechanism,
    )
}
