"""A privacy page in words."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ldpflow.privacy.page import Guarantee, PrivacyPage

__all__ = ["page_text"]

WIDTH = 78


def number(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}"


def filled(text: str, indent: str = "") -> str:
    """A paragraph."""
    return textwrap.fill(" ".join(text.split()), WIDTH, initial_indent=indent, subsequent_indent=indent)


def page_text(page: PrivacyPage) -> str:
    """The page: what is protected, the guarantees one by one, conditions, what is not covered."""
    settings = ", ".join(f"{name} = {value}" for name, value in page.settings.items())
    title = f"Privacy of {page.name}" + (f" ({settings})" if settings else "")
    parts = [title, "=" * min(len(title), WIDTH), ""]
    if not page.guarantees:
        parts.append(filled(f"{page.name} protects nothing: its outputs are the values themselves."))
        return "\n".join(parts) + "\n"
    parts += [filled(protected(page)), ""]
    for place, guarantee in enumerate(page.guarantees, start=1):
        parts += [f"{place}. {guarantee.release[0].upper()}{guarantee.release[1:]}", ""]
        parts += [filled(sentence, "   ") for sentence in sentences(guarantee, page.local)]
        parts.append("")
    parts += ["What this page does not say", "", *map(filled, limits(page)), "", "Sources", ""]
    found = dict.fromkeys(s for guarantee in page.guarantees for s in guarantee.sources)
    parts += [f"   {source}" for source in found]
    return "\n".join(parts) + "\n"


def protected(page: PrivacyPage) -> str:
    """Which records are protected, and against which observer."""
    if page.local:
        return (
            f"Protected is one {page.unit}, in the place of any other, against anyone who sees the "
            "report, the collector included (local privacy): each user randomises before anything is "
            f"sent. The guarantee is {page.notion}."
        )
    return (
        f"Protected is one {page.unit}, in the place of any other, against anyone who sees what is "
        "released, but not against the curator, who holds the raw records (central privacy). The "
        f"guarantee is {page.notion}."
    )


def sentences(guarantee: Guarantee, local: bool) -> list[str]:
    """A guarantee in words: probabilities first, then the notions, then what has to be true."""
    found = [f"Against: {guarantee.against}."]
    if guarantee.unproved:
        beyond = "" if guarantee.scope == "answering" else " beyond those above"
        found.append(f"No guarantee{beyond}: {guarantee.unproved}.")
    if guarantee.epsilon is not None:
        found.append(odds(guarantee.epsilon))
    if guarantee.epsilon_at_delta is not None:
        delta = f"{guarantee.delta:g}"
        found.append(
            f"(epsilon, delta)-DP with epsilon = {number(guarantee.epsilon_at_delta)} at delta = {delta}."
        )
    if guarantee.mu is not None:
        found.append(testing(guarantee.mu, guarantee.epsilon))
    if guarantee.rho is not None:
        orders = ", ".join(f"{number(value)} at order {order:g}" for order, value in guarantee.renyi.items())
        found.append(f"Zero-concentrated DP with rho = {number(guarantee.rho)}; Renyi DP with {orders}.")
    if guarantee.conditions:
        found.append("Provided that " + "; ".join(guarantee.conditions) + ".")
    return found


def odds(epsilon: float) -> str:
    """Pure DP as a bound on probabilities and on what an observer can infer."""
    factor = number(math.exp(epsilon)) if epsilon < 50 else f"e^{number(epsilon)}"
    sure = 1.0 / (1.0 + math.exp(-epsilon))
    shown = f"{100 * sure:.1f}%" if sure < 0.9995 else "more than 99.9%"
    return (
        f"Pure DP with epsilon = {number(epsilon)}: replacing the record makes no outcome more than "
        f"e^{number(epsilon)} = {factor} times as probable. An observer who thought two values equally "
        f"likely before can be at most {shown} sure of one of them afterwards."
    )


def testing(mu: float, epsilon: float | None = None) -> str:
    """Gaussian DP as a bound on the power of a test; with pure DP too, the smaller of both bounds."""
    level = 0.05
    power = normal(mu - 1.6448536269514722)
    if epsilon is not None:
        # Kairouz, Oh and Viswanath (2017): power <= min(e^eps a, 1 - e^-eps (1 - a)) at level a.
        power = min(power, math.exp(min(epsilon, 700.0)) * level, 1.0 - math.exp(-epsilon) * (1.0 - level))
    return (
        f"Gaussian DP with mu = {number(mu)}: a test of one value against another that is wrong in 5% "
        f"of the cases where the first is true finds the second in at most {100 * power:.1f}% "
        f"(without any information: {100 * level:.0f}%)."
    )


def normal(x: float) -> float:
    """Phi(x)."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def limits(page: PrivacyPage) -> list[str]:
    """Sentences on the assumptions of the guarantees, and on what they do not cover."""
    who = "the users' own devices" if page.local else "the curator's system"
    return [
        f"- These are guarantees of the mechanism on paper. They hold for {who} only if the "
        "randomness there is cryptographic and no side channel (timing, floating point, logs, "
        "addresses) says more than the report.",
        "- Whether somebody takes part at all, and when, is not hidden unless a line above says so.",
        "- Other releases about the same people add up with these. So does what was chosen by looking at "
        "their data: a start or a step length from a pilot is sent to every user.",
        "- The noise that ldpflow simulates is seeded and protects no data.",
    ]
