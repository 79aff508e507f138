"""Privacy page: what a mechanism and a design promise, in every notion that follows, with sources.

The page starts from the guarantee of one report (or of one central release) and follows it through the
design: several reports about one user, a secret random sample of users, reports in a secret random
order. Every step names what it assumes and where it is proved; a step without a proof says so and gives
no number. What is promised is the guarantee of the mechanism on paper: it says nothing about an
implementation, and the noise that ldpflow simulates protects no data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ldpflow.errors import InputError
from ldpflow.mechanisms.mechanism import PrivacyStatement
from ldpflow.privacy.amplification import sampled_pair
from ldpflow.privacy.gaussian import share
from ldpflow.privacy.pure import count_of
from ldpflow.privacy.releases import Release, release_of

__all__ = ["Design", "Guarantee", "PrivacyPage", "privacy_page"]

SHOWN_ORDERS = (2.0, 8.0, 32.0)

Scope = Literal["one", "composed", "sampled", "shuffled", "shuffled_sampled"]


@dataclass(frozen=True)
class Design:
    """Design of a collection of reports, as far as privacy depends on it.

    Parameters
    ----------
    reports : int >= 1
        Reports about one user that an adversary may link, k.
    response_rate : float in (0, 1]
        Share of the invited who respond, where who responds is random and secret.
    shuffled : bool
        Whether a trusted shuffler puts users in a secret uniformly random order.
    users : int, optional
        n, for ``shuffled``.
    delta : float in (0, 1)
        At which (epsilon, delta) pairs are given.
    """

    reports: int = 1
    response_rate: float = 1.0
    shuffled: bool = False
    users: int | None = None
    delta: float = 1e-6

    def __post_init__(self) -> None:
        count_of(self.reports)
        share("delta", self.delta)
        sampled_pair(0.0, 0.0, self.response_rate)  # refuses a rate that is none
        if self.shuffled and self.users is None:
            raise InputError("users", None, "the number of users whose reports are shuffled")
        if self.users is not None and not self.users >= 1:
            raise InputError("users", self.users, "a whole number >= 1")


@dataclass(frozen=True)
class Guarantee:
    """One line of the page: a release, an adversary, and the guarantee in several notions.

    Parameters
    ----------
    scope : str
        ``one``, ``composed``, ``sampled``, ``shuffled`` or ``shuffled_sampled``.
    release : str
        What is seen.
    against : str
        By whom.
    epsilon : float or None
        Of pure DP; None where the release has none.
    delta, epsilon_at_delta : float
        The least epsilon proved at this delta; None where none is.
    mu : float or None
        Of Gaussian DP.
    rho : float or None
        Of zero-concentrated DP.
    renyi : dict of float to float
        Renyi divergence by order.
    conditions : tuple of str
        What has to be true beside the mechanism itself.
    sources : tuple of str
    unproved : str
        Why there is no number; empty where there is.
    """

    scope: Scope
    release: str
    against: str
    delta: float
    epsilon: float | None = None
    epsilon_at_delta: float | None = None
    mu: float | None = None
    rho: float | None = None
    renyi: dict[float, float] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    unproved: str = ""


@dataclass(frozen=True)
class PrivacyPage:
    """Privacy guarantee of a mechanism (or a central algorithm) in a design.

    Parameters
    ----------
    name : str
        Kind of the mechanism or algorithm.
    settings : dict
        Its settings, defaults included.
    notion, unit : str
        Of the guarantee that the page starts from.
    local : bool
        Whether the guarantee is against the collector of the reports too.
    design : Design
    guarantees : tuple of Guarantee
        Empty where nothing is protected.
    """

    name: str
    settings: dict[str, Any]
    notion: str
    unit: str
    local: bool
    design: Design
    guarantees: tuple[Guarantee, ...]

    def to_dict(self) -> dict[str, Any]:
        """The page as plain values, for JSON: no value is infinite or undefined, None is none."""
        result = asdict(self)
        for guarantee in result["guarantees"]:
            guarantee["renyi"] = {f"{order:g}": value for order, value in guarantee["renyi"].items()}
        return result

    def text(self) -> str:
        """The page in words, 78 columns, ready to be filed."""
        from ldpflow.privacy.wording import page_text

        return page_text(self)


def privacy_page(
    name: str,
    settings: Mapping[str, Any],
    statement: PrivacyStatement,
    design: Design | None = None,
) -> PrivacyPage:
    """The privacy page of a mechanism or of an algorithm that is private by itself.

    Parameters
    ----------
    name : str
        Its kind, for example ``laplace``.
    settings : mapping
        Its settings, to be printed.
    statement : PrivacyStatement
        What it guarantees: ``mechanism.privacy()`` or ``algorithm.privacy(mechanism)``.
    design : Design, optional

    Raises
    ------
    InputError
        If the design is impossible, or the statement is in a notion that is not known here.
    """
    design = Design() if design is None else design
    local = "central" not in statement.notion and statement.notion != "none"
    release = release_of(name, statement)
    found: list[Guarantee] = []
    if release is not None:
        found.append(one_release(release, design, local))
        if design.reports > 1:
            found.append(composed_release(release, design, local))
        if design.response_rate < 1:
            found.append(sampled_release(release, design))
        if design.shuffled:
            found += shuffled_releases(release, design, local)
    return PrivacyPage(name, dict(settings), statement.notion, statement.unit, local, design, tuple(found))


def notions(release: Release, count: int, delta: float) -> dict[str, Any]:
    """All notions of ``count`` releases about one user."""
    renyi = {order: release.renyi(order, count) for order in SHOWN_ORDERS}
    return {
        "epsilon": release.pure(count),
        "epsilon_at_delta": release.epsilon_at(delta, count),
        "mu": release.mu(count),
        "rho": release.rho(count),
        "renyi": {order: value for order, value in renyi.items() if value is not None},
    }


def one_release(release: Release, design: Design, local: bool) -> Guarantee:
    """The mechanism's own guarantee."""
    return Guarantee(
        scope="one",
        release="one report" if local else "everything that is released",
        against="anyone who sees it, the collector included" if local else "anyone but the curator",
        delta=design.delta,
        sources=release.sources(1),
        **notions(release, 1, design.delta),
    )


def composed_release(release: Release, design: Design, local: bool) -> Guarantee:
    """Several reports about the same user."""
    k = design.reports
    return Guarantee(
        scope="composed",
        release=f"all {k:,} reports of one user" if local else f"{k:,} releases from the same records",
        against="anyone who sees them and can link them",
        delta=design.delta,
        conditions=(
            "each report has fresh randomness; what is asked may depend on earlier reports",
            "a report that is sent a second time is sent as it was, not randomised again",
        ),
        sources=release.sources(k),
        **notions(release, k, design.delta),
    )


SECRET_SAMPLE = (
    "who responds is a uniformly random subset of the invited, whatever their values are",
    "who responded stays secret: people who know that somebody responded learn what is said above",
)


def sampled_release(release: Release, design: Design) -> Guarantee:
    """One of the invited, of whom a secret random share responds."""
    pair = release.sampled(design.delta, design.response_rate, design.reports)
    pure = release.pure(design.reports)
    return Guarantee(
        scope="sampled",
        release=f"everything, about one of the invited of whom {design.response_rate:g} respond",
        against="anyone who does not know who responded",
        delta=design.delta,
        epsilon=None if pure is None else sampled_pair(pure, 0.0, design.response_rate)[0],
        epsilon_at_delta=pair,
        conditions=SECRET_SAMPLE,
        sources=("Balle, Barthe and Gaboardi 2018, Theorem 9",),
        unproved="" if pair is not None else "no epsilon is proved at this delta",
    )


SECRET_ORDER = (
    "users come in a uniformly random order that stays secret, and identities are removed by a party "
    "that does not work with the collector",
    "every user sends one report",
)


def shuffled_releases(release: Release, design: Design, local: bool) -> list[Guarantee]:
    """All reports, in a secret random order; and the same for one of the invited."""
    from ldpflow.privacy.shuffling import largest_local_epsilon

    n = design.users
    assert n is not None
    reason = ""
    central = None
    if not local:
        reason = "shuffling amplifies local guarantees; this one is central already"
    elif design.reports > 1:
        reason = "the theorem is for one report a user"
    else:
        central = release.shuffled(n, design.delta)
        if central is None:
            largest = largest_local_epsilon(n, design.delta / 2)
            reason = (
                f"no epsilon of one report at most {largest:.4g}, the theorem's limit with {n:,} users, "
                "gives this delta"
                if largest > 0
                else f"the theorem says nothing for {n:,} users"
            )
    first = Guarantee(
        scope="shuffled",
        release=f"all reports of {n:,} users, shuffled",
        against="anyone who sees what the shuffler gives out",
        delta=design.delta,
        epsilon_at_delta=central,
        conditions=SECRET_ORDER,
        sources=("Feldman, McMillan and Talwar 2021, Theorem 3.8",),
        unproved=reason,
    )
    if central is None or design.response_rate == 1:
        return [first]
    inner = release.shuffled(n, design.delta / design.response_rate)
    if inner is None:
        return [first]
    rate = design.response_rate
    second = Guarantee(
        scope="shuffled_sampled",
        release=f"the same, about one of the invited of whom {rate:g} respond",
        against="anyone who sees what the shuffler gives out and does not know who responded",
        delta=design.delta,
        epsilon_at_delta=sampled_pair(inner, design.delta / rate, rate)[0],
        conditions=(*SECRET_ORDER, *SECRET_SAMPLE),
        sources=(*first.sources, "Balle, Barthe and Gaboardi 2018, Theorem 9"),
    )
    return [first, second]
