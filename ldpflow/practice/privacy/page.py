"""Privacy page: the guarantees of a mechanism in a design, with their conditions and sources.

The page starts from the guarantee of one report, or of one central release. It derives those of several
reports about one user, of users who may not answer, of a secret random sample of users, and of reports in a
secret random order. A guarantee without a proof has no number.

Let n of N people be drawn at random, and let a function of the set of their records be private if one record
is replaced. If the sample stays secret, the guarantee for all N is stronger (Balle, Barthe and Gaboardi,
2018, Privacy amplification by subsampling, Theorem 9):

    (epsilon, delta) on the sample  =>  (log(1 + r (e^epsilon - 1)), r delta) on all N,   r = n/N

The theorem is false for an observer who knows something about the order of the reports. Let three people be
invited in a known order, and let two of them, drawn uniformly, respond with epsilon = 3. For this observer
epsilon is 2.956, but the formula gives 2.619.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from ldpflow.components.mechanisms.mechanism import PrivacyStatement
from ldpflow.documents import templates
from ldpflow.errors import InputError
from ldpflow.numerics.accounting import check_probability, largest_local_epsilon, rounded
from ldpflow.practice.privacy.releases import (
    count_of,
    nonresponse_epsilon,
    notions,
    pure_notions,
    shuffled_epsilon,
)
from ldpflow.practice.transcripts.collection import Collection


def amplify(epsilon: float, rate: float) -> float:
    """log(1 + r (e^epsilon - 1)): epsilon for all people, if a secret random share r of them is used."""
    if epsilon > 700:  # e^epsilon would overflow
        return epsilon + math.log(rate)
    return math.log1p(rate * math.expm1(epsilon))


LEVEL = 0.05  # level of the tests whose power is printed
BALLE = "Balle, Barthe and Gaboardi 2018, Theorem 9"


@dataclass(frozen=True)
class CollectionDesign:
    """Facts of a collection of reports on which privacy depends.

    Parameters
    ----------
    reports : int >= 1
        Number of collections from one user that an adversary may link. A collection may have several reports
        of the user.
    response_rate : float in (0, 1]
        Share of the invited people who respond. It strengthens a guarantee only with ``secret_sample``.
    secret_sample : bool
        Whether the responders are a random set of fixed size and send equally many reports, while the set and
        the order of the reports stay secret. SGD takes reports in the order of its steps, so a shuffler must
        choose this order.
    shuffled : bool
        Whether a trusted shuffler puts users in a secret uniformly random order.
    users : int, optional
        Number of users. It is required if ``shuffled`` is True, and must be None otherwise.
    delta : float in (0, 1)
        Delta of the (epsilon, delta) guarantees.
    """

    reports: int = 1
    response_rate: float = 1.0
    secret_sample: bool = False
    shuffled: bool = False
    users: int | None = None
    delta: float = 1e-6

    def __post_init__(self) -> None:
        count_of(self.reports)
        check_probability("delta", self.delta)
        if not 0 < self.response_rate <= 1:
            raise InputError("response_rate", self.response_rate, "a number in (0, 1]")
        if self.secret_sample and self.response_rate == 1:
            raise InputError("secret_sample", True, "a response_rate below 1: a sample of all is no secret")
        if self.users is not None and not self.shuffled:
            raise InputError("users", self.users, "needs `shuffled`")
        if self.shuffled and not (self.users or 0) >= 1:
            raise InputError("users", self.users, "a whole number >= 1")


@dataclass(frozen=True)
class Guarantee:
    """Guarantee of a release against an observer. ``release`` and ``against`` describe them in words.

    epsilon is that of pure DP, mu that of Gaussian DP and rho that of zero-concentrated DP.
    ``epsilon_at_delta`` is the smallest proved epsilon at ``delta``. ``renyi`` maps orders to Renyi
    divergences. If nothing is proved, ``unproved`` has the reason.
    """

    scope: str
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
    """Privacy guarantees of a mechanism, or of a central algorithm, in a design.

    ``notion`` and ``unit`` are those of one report. If ``local`` is True, the guarantee also holds against
    the collector of the reports. If nothing is protected, ``guarantees`` is empty. ``collected`` has
    paragraphs on what a planned collection asks of its users and what the collector sees.
    """

    name: str
    settings: dict[str, Any]
    notion: str
    unit: str
    local: bool
    design: CollectionDesign
    guarantees: tuple[Guarantee, ...]
    collected: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The page as plain values for JSON. Missing values are None. No value is infinite or NaN."""
        result = asdict(self)
        for guarantee in result["guarantees"]:
            guarantee["renyi"] = {f"{order:g}": value for order, value in guarantee["renyi"].items()}
        return result

    def text(self) -> str:
        """The page as text of 78 columns."""
        settings = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        return render(
            "privacy.txt.jinja",
            page=self,
            title=f"Privacy of {self.name}" + (f" ({settings})" if settings else ""),
            sources=dict.fromkeys(source for each in self.guarantees for source in each.sources),
            odds=odds,
            power=power,
        )


def render(template: str, **values: Any) -> str:
    environment = templates("ldpflow.practice.privacy", number=rounded, paragraph=paragraph)
    return environment.get_template(template).render(values)


def paragraph(text: str, indent: str = "") -> str:
    words = " ".join(text.split())
    return textwrap.fill(words, 78, initial_indent=indent, subsequent_indent=indent) + "\n" if words else ""


def odds(epsilon: float) -> tuple[str, str, str]:
    """e^epsilon, the largest posterior of one of two equally likely values, and the best test's power."""
    factor = rounded(math.exp(epsilon)) if epsilon < 50 else f"e^{rounded(epsilon)}"
    # Kairouz, Oh and Viswanath (2017): power <= min(e^eps a, 1 - e^-eps (1 - a)) at level a.
    found = min(math.exp(min(epsilon, 700.0)) * LEVEL, 1.0 - math.exp(-epsilon) * (1.0 - LEVEL))
    return factor, percent(1.0 / (1.0 + math.exp(-epsilon))), percent(found)


def percent(share: float) -> str:
    return f"{math.ceil(1000.0 * share - 1e-9) / 10.0:.1f}%"


def power(mu: float) -> str:
    """Largest power of a test at level 0.05 under Gaussian DP."""
    return percent(0.5 * math.erfc((1.6448536269514722 - mu) / math.sqrt(2.0)))


def privacy_page(
    name: str,
    settings: Mapping[str, Any],
    statement: PrivacyStatement,
    design: CollectionDesign | None = None,
    collected: Sequence[str] = (),
) -> PrivacyPage:
    """Make the privacy page of a mechanism, or of an algorithm with a guarantee of its own.

    ``name`` is its kind, and ``settings`` are printed. ``statement`` is ``mechanism.privacy()`` or
    ``algorithm.privacy(mechanism)``.

    Raises
    ------
    InputError
        If the page does not know the notion of the statement.
    """
    design = CollectionDesign() if design is None else design
    local = "central" not in statement.notion and statement.notion != "none"
    found: list[Guarantee] = []
    if statement.notion != "none":
        count = design.reports * statement.reports
        uneven = (ANSWERED,) if len(set(statement.answer_rates)) > 1 else ()
        one, several = "everything that is released", f"{count:,} releases of the same records"
        against = "anyone but the curator"
        if local:
            one, several = "one report", f"all {count:,} reports of one user"
            against = "anyone who sees it, the collector included"
        found.append(
            Guarantee("one", one, against, conditions=uneven, **notions(name, statement, 1, design.delta))
        )
        if count > 1:
            against = "anyone who sees them and can link them"
            terms = notions(name, statement, count, design.delta)
            found.append(Guarantee("composed", several, against, conditions=(*COMPOSED, *uneven), **terms))
        if statement.answer_rates != (1.0, 1.0):
            found.append(answering_release(statement, design))
        if design.response_rate < 1:
            found.append(sampled_release(name, statement, design, bool(uneven)))
        if design.shuffled:
            found.append(shuffled_release(statement, design, local, bool(uneven)))
    notion, unit = statement.notion, statement.unit
    return PrivacyPage(name, dict(settings), notion, unit, local, design, tuple(found), tuple(collected))


def collected_words(collection: Collection) -> list[str]:
    """Paragraphs on what a planned collection asks of its users and what the collector sees."""
    protocol = collection.protocol
    rounds = protocol.interaction_rounds() if protocol is not None else collection.steps(collection.n or 0)
    text = render(
        "collected.txt.jinja", collection=collection, kind=collection.randomiser.kind, rounds=rounds
    )
    return [" ".join(part.split()) for part in text.split("\n\n")]


ANSWERED = "what an observer learns from the fact that the user answers is counted below, not here"
UNEVEN = "whether a user answers depends on the value"
COMPOSED = (
    "each report has fresh randomness (its question may depend on earlier reports)",
    "how many reports a user sends does not depend on the value",
    "a report that is sent a second time is not randomised again",
)


def answering_release(statement: PrivacyStatement, design: CollectionDesign) -> Guarantee:
    assert statement.epsilon is not None
    low, high = sorted(statement.answer_rates)
    times = f", {design.reports:,} times" if design.reports > 1 else ""
    line = partial(
        Guarantee,
        "answering",
        f"whether a user answers, and every answer{times}",
        "anyone who sees who answers, the collector included",
    )
    epsilon = nonresponse_epsilon(statement.epsilon, low, high)
    if math.isinf(epsilon):
        always, sign, rate = ("always", "silence", 1 - low) if high == 1 else ("never", "an answer", high)
        shown = f"{sign} (probability {rate:g}) shows the other"
        return line(design.delta, unproved=f"users on one side of the quantile {always} answer, so {shown}")
    return line(
        conditions=("whether a user answers depends only on the user's value and on chance",),
        delta=design.delta,
        **pure_notions(epsilon, design.reports, design.delta),
    )


SECRET_SAMPLE = (
    "the number of responders was fixed beforehand, and all sets of this many invited people are equally "
    "likely to respond, for any values",
    "who responded and who did not stays secret: if an observer knows of any person whether this person "
    "responded, only the guarantees above hold",
    "reports are seen without order, or in a uniformly random order that stays secret",
    "all responders send equally many reports",
)

NO_SECRET_SAMPLE = (
    "a response rate promises nothing if an observer knows something about the order of the reports, as in "
    "the steps of LDP-SGD, or if the number of responders is random. Set `secret_sample` if this number was "
    "fixed beforehand, all responders send equally many reports, and the random set of responders and the "
    "order of the reports are secret"
)


def sampled_release(
    name: str, statement: PrivacyStatement, design: CollectionDesign, uneven: bool
) -> Guarantee:
    rate = design.response_rate
    line = partial(
        Guarantee,
        "sampled",
        f"everything released about one invited person (a share {rate:g} responds)",
        "anyone who does not know of any person whether this person responded, nor the order of the reports",
        design.delta,
    )
    if uneven or not design.secret_sample:
        return line(unproved=UNEVEN if uneven else NO_SECRET_SAMPLE)

    def epsilon(notion: str, delta: float) -> float | None:
        found = notions(name, statement, design.reports * statement.reports, delta).get(notion)
        return None if found is None else amplify(found, rate)

    # A record is released with probability ``rate``. If delta is at least as large, epsilon is 0.
    pair = 0.0 if design.delta >= rate else epsilon("epsilon_at_delta", design.delta / rate)
    return line(
        epsilon("epsilon", design.delta),
        pair,
        conditions=SECRET_SAMPLE,
        sources=(BALLE,),
        unproved="" if pair is not None else "no epsilon is proved at this delta",
    )


SECRET_ORDER = (
    "users come in a uniformly random order that stays secret, and identities are removed by a party "
    "that does not work with the observer",
    "all other users randomise their reports and keep them secret; the number of users counts no others",
    "every user sends one report",
)


def shuffled_release(
    statement: PrivacyStatement, design: CollectionDesign, local: bool, uneven: bool
) -> Guarantee:
    n, reason, central = design.users or 0, "", None
    if not local:
        reason = "shuffling amplifies local guarantees; this one is central already"
    elif design.reports * statement.reports > 1:
        reason = "the theorem is for one report a user"
    elif uneven:
        reason = UNEVEN
    else:
        central = shuffled_epsilon(statement, n, design.delta)
    if central is None and not reason:
        largest = largest_local_epsilon(n, design.delta / (1 if statement.mu is None else 2))
        shown = rounded(largest, up=False)
        limit = f"covers epsilon up to {shown} per report with {n:,} users, and proves nothing here"
        reason = f"the theorem {limit if largest > 0 else f'needs more than {n:,} users'}"
    return Guarantee(
        "shuffled",
        f"all reports of {n:,} users, shuffled",
        "anyone who sees what the shuffler gives out",
        design.delta,
        epsilon_at_delta=central,
        conditions=SECRET_ORDER,
        sources=("Feldman, McMillan and Talwar 2021, Theorem 3.8",),
        unproved=reason,
    )
