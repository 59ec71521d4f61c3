"""Every public verb documents its parameters, and its examples run as they are printed."""

from __future__ import annotations

import doctest
import inspect
import os
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import longshot
from longshot.datasets import take_rows

_ELSEWHERE = re.compile(r"\.(baselines|programs|inside)\.")  # programs that run beside other modules


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what the examples read, and a toybox of 16 pictures of 32 kinds per split in place of 12,000."""
    from longshot.datasets import toybox

    full = toybox.open_toybox()
    chosen = {class_id for members in full.splits.values() for class_id in members[:32]}
    starts = [int(full.offsets[number]) for number, name in enumerate(full.class_ids) if name in chosen]
    small = take_rows(full, np.concatenate([np.arange(16) + start for start in starts]))
    folder = tmp_path_factory.mktemp("desk")
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toybox, "open_toybox", lambda: small)
        patch.setenv("LONGSHOT_CACHE", str(folder / "cache"))
        os.chdir(folder)
        _lay_out()
        yield folder
    os.chdir(before)


def _lay_out() -> None:
    """easy.parquet and hard.parquet, the run runs/first on them, and predictions.parquet for the first."""
    from longshot.evaluation.predictions import write_predictions

    easy = longshot.sample("toybox", tasks=20, split="test", seed=1)
    easy.save("easy.parquet")
    longshot.sample("toybox", tasks=6, split="test", way=3, shot=2, query=3).save("hard.parquet")
    methods = ["protonet", "nearest-neighbour"]
    longshot.evaluate(["easy.parquet", "hard.parquet"], backbones="pixels", methods=methods, out="runs/first")
    answers = [np.asarray(labels) for labels in easy.table["query_label"].to_pylist()]
    write_predictions("predictions.parquet", easy, answers)


@pytest.mark.parametrize("name", longshot._VERBS)
def test_the_examples_run(desk: Path, name: str) -> None:
    verb = inspect.unwrap(getattr(longshot, name))
    examples = doctest.DocTestParser().get_doctest(
        inspect.getdoc(verb) or "", {**verb.__globals__, "longshot": longshot}, name, inspect.getfile(verb), 0
    )
    shown = [example for example in examples.examples if not example.options.get(doctest.SKIP)]
    assert shown, f"longshot.{name} shows no example that runs"
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(examples, out=output.append).failed == 0, "".join(output)


@pytest.mark.parametrize("name", longshot._VERBS)
def test_every_parameter_is_documented_and_typed(name: str) -> None:
    verb = inspect.unwrap(getattr(longshot, name))
    text = inspect.getdoc(verb) or ""
    section = text.partition("Parameters\n----------\n")[2].partition("\n\nReturns\n")[0]
    documented = {
        parameter.strip("* ")
        for line in re.findall(r"^(\*\*\w+|\S.*?(?= :))", section, re.MULTILINE)
        for parameter in line.split(",")
    }
    parameters = inspect.signature(verb).parameters
    assert documented >= set(parameters), f"not documented: {sorted(set(parameters) - documented)}"
    untyped = [name for name, each in parameters.items() if each.annotation is inspect.Parameter.empty]
    assert untyped == []


def test_all_other_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples below the verbs: those that need no more than an empty folder."""
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    output: list[str] = []
    for module in pkgutil.walk_packages(longshot.__path__, "longshot."):
        if module.name.endswith("__main__") or _ELSEWHERE.search(module.name):
            continue
        for examples in doctest.DocTestFinder().find(import_module(module.name), module.name):
            if examples.name.rpartition(".")[2] not in longshot._VERBS:
                runner.run(examples, out=output.append)
    assert runner.tries > 100
    assert runner.failures == 0, "".join(output)
