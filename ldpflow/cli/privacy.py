"""``ldpflow privacy``: what a mechanism and a design promise, on one page."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ldpflow.errors import InputError

if TYPE_CHECKING:
    from ldpflow.mechanisms import Mechanism

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Another setting of the mechanism; repeatable."),
]
MechanismName = Annotated[
    str, typer.Argument(metavar="MECHANISM", help="Kind of the mechanism; see ldpflow list.")
]
Epsilon = Annotated[float | None, typer.Option(help="Budget of one report, of eps-LDP mechanisms.")]
Mu = Annotated[float | None, typer.Option(help="Budget of one report, of Gaussian mechanisms.")]


class PageFormat(StrEnum):
    """Output formats of a page."""

    text = "text"
    json = "json"


def privacy(
    mechanism: MechanismName,
    epsilon: Epsilon = None,
    mu: Mu = None,
    settings: Settings = None,
    reports: Annotated[int, typer.Option(help="Number of linkable reports per user.")] = 1,
    response_rate: Annotated[
        float, typer.Option(help="Share of invited users who respond; hides nobody by itself.")
    ] = 1.0,
    secret_sample: Annotated[
        bool,
        typer.Option(
            "--secret-sample",
            help="Responders are a random set of fixed size; who they are and the order are secret.",
        ),
    ] = False,
    shuffled: Annotated[
        bool, typer.Option("--shuffled", help="Reports arrive in a secret random order.")
    ] = False,
    users: Annotated[str | None, typer.Option(metavar="X", help="Number of shuffled reports.")] = None,
    delta: Annotated[float, typer.Option(help="Delta of (epsilon, delta) guarantees.")] = 1e-6,
    form: Annotated[PageFormat, typer.Option("--format", help="text or json.")] = PageFormat.text,
) -> None:
    """Print a mechanism's privacy guarantee per report, per user and in a design, with sources.

    These are guarantees on paper: they protect people only where a vetted implementation runs.
    """
    import json

    from ldpflow.privacy.page import Design, privacy_page

    chosen = chosen_mechanism(mechanism, {"epsilon": epsilon, "mu": mu}, settings)
    design = Design(reports, response_rate, secret_sample, shuffled, whole(users), delta)
    shown = {k: v for k, v in chosen.model_dump().items() if k != "kind" and v is not None}
    page = privacy_page(mechanism, shown, chosen.privacy(), design)
    if form is PageFormat.json:
        typer.echo(json.dumps(page.to_dict(), indent=2, allow_nan=False))
    else:
        typer.echo(page.text(), nl=False)


def whole(text: str | None, field: str = "users") -> int | None:
    """A count of users, which may be written 1e6."""
    from ldpflow.study.fields import number

    if text is None:
        return None
    value = number(text)
    if isinstance(value, str) or value != int(value) or value < 1:
        raise InputError(field, text, "a whole number >= 1")
    return int(value)


def given_settings(given: dict[str, float | None], settings: list[str] | None) -> dict[str, object]:
    """The settings of the command line, by name."""
    from ldpflow.study.fields import number

    found: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    for text in settings or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError("set", text, "NAME=VALUE, for example clip=2")
        parts = [number(part) for part in value.split(",")]
        found[name.strip()] = parts if len(parts) > 1 else parts[0]
    return found


def chosen_mechanism(kind: str, given: dict[str, float | None], settings: list[str] | None) -> Mechanism:
    """The mechanism with the settings of the command line."""
    from ldpflow.protocols import PROTOCOLS
    from ldpflow.study.entry import read_group
    from ldpflow.study.plugins import load_plugins

    load_plugins()
    table = {"kind": kind, **given_settings(given, settings)}
    if kind in PROTOCOLS:
        hint = (
            "All answers of a user to a protocol are eps-LDP together: see `ldpflow privacy "
            "randomized_response --epsilon E`, or deployed_response for users who do not always answer."
        )
        raise InputError("mechanism", kind, "the kind of a mechanism", hint)
    (entry,) = read_group("mechanism", table)
    found = entry.combinations()
    if len(found) != 1:
        raise InputError("mechanism", table, "one value for every setting")
    mechanism: Mechanism = found[0]
    return mechanism
