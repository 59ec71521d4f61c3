"""What ``longshot`` offers, and that editors see the same."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import longshot

SOURCE = Path(longshot.__file__).parent


def test_type_checkers_see_what_can_be_imported() -> None:
    tree = ast.parse((SOURCE / "__init__.pyi").read_text("utf-8"))
    shown = [alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    absent = set(longshot._ABSENT)  # names of wings that are not installed
    assert {*shown, "competition"} - {"arena", *absent} == set(longshot.__all__) - {"__version__"}
    assert "competition" in absent or longshot.competition is longshot.arena  # type: ignore[comparison-overlap]


def test_a_function_and_a_room_never_share_a_name() -> None:
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(longshot._VERBS) & rooms == set()


def test_every_verb_is_called_by_its_public_name() -> None:
    for name in longshot._VERBS:
        verb = getattr(longshot, name)
        assert verb.__name__ == name
        assert f"{verb.__module__}.{verb.__qualname__}" == f"longshot.{name}"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'longshot' has no attribute 'samples'"):
        _ = longshot.samples  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", longshot._VERBS)
def test_only_the_subject_is_given_by_place(name: str) -> None:
    """What a verb works on may be given by place; every setting is given by its name."""
    positional = [
        parameter
        for parameter in inspect.signature(getattr(longshot, name)).parameters.values()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    assert len(positional) <= 2


def test_the_verbs_are_those_of_the_design() -> None:
    assert {*longshot._VERBS, *longshot._ABSENT} - {"open_split", "studies", "arena", "competition"} == {
        *(
            "open_dataset",
            "list_datasets",
            "get_dataset",
            "show_dataset",
            "identify_dataset",
            "find_overlap",
            "find_suspects",
            "list_backbones",
            "embed",
            "open_taxonomy",
            "make_taxonomy",
        ),
        "measure_distances",
        "serve",
        "serve_competition",
        *(
            "make_split",
            "compare_splits",
            "plot_splits",
            "sample",
            "inspect",
            "measure_attributes",
            "suggest_attributes",
            "explain",
            "check",
        ),
        *("list_methods", "check_method", "evaluate", "compare", "report", "train", "tune", "run_study"),
        *("bench", "release", "verify", "score", "estimate", "doctor"),
        *("choose", "fit", "predict", "export"),
    }
