"""How reports were collected: what is read, and what is refused by field."""

from __future__ import annotations

import pytest

from ldpflow.errors import InputError
from ldpflow.practice.transcripts.collection import merge_settings, read_collection
from tests.oracles.transcript import SETTINGS
from tests.transcripts.conftest import field_of
from tests.transcripts.test_protocols import HAAR, ROUNDS


def test_what_is_read():
    methods = [{"kind": "TR", "degree": 3, "burn_in": "0.01n"}, {"kind": "BB", "beta": [0.7, 0.8]}]
    collection = read_collection(SETTINGS | {"level": [0.9, 0.95], "origin": 39, "method": methods})
    assert collection.taus == (0.9,) and collection.levels == (0.9, 0.95)
    assert collection.algorithm.step_constant() == 40.0 and collection.start == (20.0,)
    assert [m.kind for m in collection.methods] == ["TR", "BB", "BB"]
    assert collection.origin == (39.0,) and collection.batch_size == 1
    assert read_collection(changed("problem", tau=[0.9]) | {"path": None}) == read_collection(SETTINGS)
    rounds = read_collection(SETTINGS | {"algorithm": {"c": 1.0, "gamma": 0.6, "batch_size": 20}})
    assert rounds.batch_size == 20 and rounds.start is None


def changed(table, settings=SETTINGS, **own):
    """Settings with others in a table; ``...`` leaves one out."""
    return settings | {table: {k: v for k, v in (settings[table] | own).items() if v is not ...}}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (SETTINGS | {"colour": 1}, "colour"),
        (changed("problem", tau=...), "problem.tau"),
        (changed("problem", tau=1.5), "problem.tau"),
        (changed("problem", tau=[0.5, 0.9]), "problem.tau"),
        (SETTINGS | {"problem": {"kind": "quantiles", "taus": [0.9, 0.5]}}, "problem.taus"),
        (SETTINGS | {"problem": {"kind": "quantiles"}}, "problem.taus"),
        (SETTINGS | {"problem": {"kind": "quantiles", "taus": [0.5]}}, "mechanism.kind"),
        ({"problem": {"kind": "other"}, "mechanism": {"kind": "cells", "epsilon": 1.0}}, "mechanism.kind"),
        (changed("problem", law="normal"), "problem.law"),
        (changed("problem", kind="quantil"), "problem.kind"),
        (changed("mechanism", kind=...), "mechanism.kind"),
        (changed("mechanism", epsilon=...), "mechanism.epsilon"),
        (changed("mechanism", kind="deployed_response"), "mechanism.kind"),
        (SETTINGS | {"mechanism": {"kind": "gaussian", "mu": 1.0, "mu_min": 0.5}}, "mechanism"),
        (changed("algorithm", c=...), "algorithm.c"),
        (changed("algorithm", gamma=...), "algorithm.gamma"),
        (changed("algorithm", radius=2.0), "algorithm.radius"),
        (changed("algorithm", kind="dp_nsgd"), "algorithm.kind"),
        (changed("algorithm", kind="minibatch_sgd", noise="batch"), "algorithm.noise"),
        (changed("algorithm", kind="minibatch_sgd", rounds=20), "algorithm.rounds"),
        (changed("algorithm", final_theta="x"), "algorithm.final_theta"),
        (changed("algorithm", theta0=[1.0, "a"]), "algorithm.theta0"),
        (SETTINGS | {"level": 1.0}, "level"),
        (SETTINGS | {"level": []}, "level"),
        (SETTINGS | {"level": [0.5 + i / 1000 for i in range(200)]}, "level"),
        (SETTINGS | {"problem": 3}, "problem"),
        (SETTINGS | {"method": {"kind": ["TR", "BM"]}}, "method"),
        (SETTINGS | {"method": [{"kind": "BM"}] * 300}, "method"),
        (SETTINGS | {"origin": "here"}, "origin"),
        (changed("protocol", HAAR, k=...), "protocol.k"),
        (changed("protocol", HAAR, k=None), "protocol.k"),
        (changed("protocol", HAAR, epsilon=...), "protocol.epsilon"),
        (changed("protocol", HAAR, kind=...), "protocol.kind"),
        (changed("protocol", HAAR, liars=0.1), "protocol.liars"),
        (changed("protocol", HAAR, answers=2), "protocol.answers"),
        (HAAR | {"mechanism": {"kind": "randomized_response", "epsilon": 1.0}}, "mechanism"),
        (HAAR | {"algorithm": {"c": 1.0, "gamma": 0.6}}, "algorithm"),
        (HAAR | {"problem": {"kind": "linear_regression"}}, "problem.kind"),
        (HAAR | {"protocol": ROUNDS["protocol"]}, "problem.taus"),
    ],
)
def test_what_is_refused(settings, field):
    assert field_of(read_collection, settings) == field


def test_two_sources_must_agree():
    both = merge_settings({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": [3]}, "x")
    assert both == {"a": {"b": 1, "c": 2}, "d": [3]}
    assert merge_settings({"level": 0.9}, {"level": [0.9]}, "x") == {"level": 0.9}
    with pytest.raises(InputError) as caught:
        merge_settings({"a": {"b": 1}}, {"a": {"b": 2}}, "the file")
    assert caught.value.field == "a.b" and "2, as the file says" in str(caught.value)
