"""The language of rules over attributes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longshot.base import UserError
from longshot.tasks.pools import rule_mask

TABLE = pa.table(
    {
        "view": ["front", "back", "side", "top", None],
        "clutter": [1, 2, 4, 5, None],
        "blur": [True, False, False, None, True],
        "light": [0.5, 1.5, 2.5, 3.5, 4.5],
        "two words": ["a b", "c", "c", "c", "c"],
    }
)


def chosen(rule: str) -> list[int]:
    return np.flatnonzero(rule_mask(rule, TABLE, "made")).tolist()


@pytest.mark.parametrize(
    ("rule", "rows"),
    [
        ("view == front", [0]),
        ("view = front", [0]),
        ("view != front", [1, 2, 3]),  # a missing value is neither
        ("view in (front, 'back')", [0, 1]),
        ("view not in (front, back)", [2, 3]),
        ("clutter > 3", [2, 3]),
        ("clutter >= 2 and clutter <= 4", [1, 2]),
        ("clutter in (1, 5)", [0, 3]),
        ("blur", [0, 4]),
        ("not blur", [1, 2]),
        ("blur == false", [1, 2]),
        ("blur == TRUE", [0, 4]),
        ("light < 2e0", [0, 1]),
        ("view == front or view == back and clutter > 100", [0]),  # and binds tighter
        ("(view == front or view == back) and clutter > 1", [1]),
        ("not (view == front or view == back)", [2, 3]),
        ("not not blur", [0, 4]),
        ("'two words' == \"a b\"", [0]),
        ("blur or light > 4", [0, 4]),
    ],
)
def test_rules_choose(rule: str, rows: list[int]) -> None:
    assert chosen(rule) == rows


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            "colour == red",
            r"no attribute 'colour' \(in the rule 'colour == red'\); it has: view, clutter, blur",
        ),
        ("view == frnt", "no image has the view 'frnt': did you mean 'front'"),
        ("view == xyzzy", "it holds back, front, side, top"),
        ("clutter > many", "'clutter' holds numbers, and 'many' is none"),
        ("blur == maybe", "'blur' is true or false, and 'maybe' is neither"),
        ("view > front", "holds words, which '>' cannot order"),
        ("view", "is not true or false but words"),
        ("clutter > 3 clutter < 5", "breaks off before"),
        ("clutter >", "it breaks off"),
        ("and blur", "it breaks off before 'and blur'"),
        ("(blur", r"it breaks off before '\(blur'"),
        ("1 < clutter < 5", "tests of one column each|no attribute '1'"),
        ("view in ((front), clutter > 3)", "compared with something that is no value"),
        ("view not front", "it breaks off before"),
        ('view == "a "b""', "it breaks off before .b."),
        ("", "it breaks off"),
        ("blur ! light", "it breaks off before '! light'"),
        ("__import__('os')", "tests of one column each"),
    ],
)
def test_rules_that_cannot_be_used(rule: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        chosen(rule)


def test_a_dataset_without_attributes() -> None:
    with pytest.raises(UserError, match="Dataset 'bare' has no attributes"):
        rule_mask("blur", None, "bare")


@st.composite
def rules(draw: st.DrawFn, depth: int = 3) -> tuple[str, object]:
    """A rule and the same as a Python function of a row."""
    if depth == 0 or draw(st.booleans()):
        number, sign = draw(st.integers(0, 6)), draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
        test = {
            "<": lambda x: x < number,
            "<=": lambda x: x <= number,
            ">": lambda x: x > number,
            ">=": lambda x: x >= number,
            "==": lambda x: x == number,
            "!=": lambda x: x != number,
        }[sign]
        return f"n {sign} {number}", test
    (first, f), (second, g) = draw(rules(depth=depth - 1)), draw(rules(depth=depth - 1))
    kind = draw(st.sampled_from(["and", "or", "not"]))
    if kind == "not":
        return f"not ({first})", lambda x: not f(x)
    if kind == "and":
        return f"({first}) and ({second})", lambda x: f(x) and g(x)
    return f"({first}) or ({second})", lambda x: f(x) or g(x)


@settings(deadline=None, max_examples=80)
@given(rules())
def test_any_rule_means_what_python_means(pair) -> None:
    rule, meaning = pair
    values = list(range(7))
    mask = rule_mask(rule, pa.table({"n": values}), "made")
    assert mask.tolist() == [bool(meaning(value)) for value in values]
