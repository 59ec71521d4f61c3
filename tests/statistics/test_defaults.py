"""Defaults that published numbers rest on, and the examples in the docstrings."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
from pathlib import Path

import pytest

from longshot import statistics

DEFAULTS = {
    "bootstrap": {"level": 0.95, "resamples": 9999, "seed": 0},
    "calibration": {"bins": 15},
    "compare_many": {"higher_is_better": True, "level": 0.95, "resamples": 9999, "seed": 0},
    "compare_paired": {"higher_is_better": True, "level": 0.95, "resamples": 9999, "seed": 0},
    "correlation": {
        "kind": "pearson",
        "level": 0.95,
    },
    "critical_difference": {"alpha": 0.05, "higher_is_better": True},
    "dataset_difficulty": {"level": 0.95},
    "unpaired_difficulty": {"level": 0.95},
    "drops": {"level": 0.95},
    "fewest_tasks": {"comparisons": 1, "level": 0.05},
    "mean_interval": {"level": 0.95},
    "most_confused": {"top": 10},
    "quantile_bins": {"count": 4, "ties": "split"},
    "ranking_stability": {"higher_is_better": True, "resamples": 2000, "seed": 0},
    "rolling_mean": {"window": 200, "level": 0.95},
    "sign_flip_test": {"resamples": 9999, "seed": 0},
    "sign_flip_tests": {"resamples": 9999, "seed": 0},
    "slope": {"level": 0.95},
    "tasks_needed": {"level": 0.95},
    "tasks_to_decide": {"comparisons": 1, "level": 0.05, "power": 0.8},
    "welch": {"level": 0.95},
    "wilson": {"level": 0.95},
}
FUNCTIONS = [name for name in statistics.__all__ if inspect.isfunction(getattr(statistics, name))]
MODULES = sorted(path.stem for path in Path(statistics.__file__).parent.glob("[a-z]*.py"))


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_defaults(name: str) -> None:
    parameters = inspect.signature(getattr(statistics, name)).parameters.values()
    defaults = {each.name: each.default for each in parameters if each.default not in (each.empty, None)}
    assert defaults == DEFAULTS[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_parameters_and_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(statistics, name)) or ""
    assert "Parameters\n----------" in text
    assert "Examples\n--------" in text and ">>>" in text


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_run(module: str) -> None:
    outcome = doctest.testmod(importlib.import_module(f"longshot.statistics.{module}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("module", ["__init__", *MODULES])
def test_nothing_else_of_longshot_is_imported(module: str) -> None:
    path = Path(statistics.__file__).with_name(f"{module}.py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("longshot") or (node.module or "").startswith(
                "longshot.statistics"
            )
        elif isinstance(node, ast.Import):
            assert not any(alias.name.startswith("longshot") for alias in node.names)
