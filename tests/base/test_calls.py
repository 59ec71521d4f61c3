from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longshot.base import UserError, call_defaults, check_settings, format_call, parse_call

TEXT = st.text(string.printable, max_size=12)
LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("text", "name", "settings"),
    [
        ("protonet", "protonet", {}),
        ("protonet()", "protonet", {}),
        (" tim( steps=100, lr=1e-3 ) ", "tim", {"steps": 100, "lr": 1e-3}),
        ("a(x=-1, y='(,)', z=[1, 2])", "a", {"x": -1, "y": "(,)", "z": [1, 2]}),
        ("sklearn:sklearn.svm.SVC(C=1)", "sklearn:sklearn.svm.SVC", {"C": 1}),
        ("timm:vit_small.dino", "timm:vit_small.dino", {}),
    ],
)
def test_parse_call(text: str, name: str, settings: dict[str, Any]) -> None:
    assert parse_call(text) == (name, settings)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(a=1)",
        "a(1)",
        "a(**{})",
        "a(x=1",
        "a(x=1)y",
        "a(x=)",
        "a(x=1, x=2)",
        "a(x=open('f'))",
        "a(x=y)",
        "a()()",
    ],
)
def test_what_is_not_a_call_of_literals_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_call(text)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["alpha", "b", "c_1"]), LITERALS))
def test_the_canonical_form_reads_back(given_settings: dict[str, Any]) -> None:
    assert parse_call(format_call("name", given_settings)) == ("name", given_settings)


def test_defaults_are_left_out_and_names_sorted() -> None:
    assert format_call("m", {"b": 1, "a": 2, "c": 10.0}, {"b": 1, "a": 1, "c": 10}) == "m(a=2)"


def test_true_is_not_one() -> None:
    assert format_call("m", {"a": True}, {"a": 1}) == "m(a=True)"


def test_unknown_setting_lists_the_valid_ones() -> None:
    def function(*, steps: int = 100, lr: float = 1e-3) -> None: ...

    with pytest.raises(UserError, match=r"no setting 'step'.*steps=100, lr=0.001"):
        check_settings("The method 'm'", {"step": 1}, call_defaults(function))
