"""Every public verb documents its parameters, and its examples run as they are printed."""

from __future__ import annotations

import doctest
import inspect
import os
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longshot
from longshot.data import take_rows
from longshot.tasks import Classes, Instances, Shape

_FUNCTIONS = (  # of rooms, that messages mention
    *("data.add_dataset", "data.check_dataset", "data.describe_dataset", "data.list_formats"),
    *("training.list_algorithms", "training.list_spaces"),
)
# Some look twice.
_LOOK_AT_EVERY_PICTURE = (
    *("check", "choose", "export", "fit", "predict", "find_overlap", "find_suspects"),
    *("measure_attributes", "suggest_attributes", "Classifier", "FewShotClassifier"),
)
_ELSEWHERE = re.compile(r"\.(baselines|programs|inside)\.")  # programs that run beside other modules


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what the examples read, and a toybox of 16 pictures of 32 kinds per split in place of 12,000."""
    from longshot.data import toybox

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
    from longshot.evaluation import write_predictions

    easy = longshot.sample("toybox", tasks=20, split="test", seed=1)
    easy.save("easy.parquet")
    longshot.sample("toybox", tasks=6, split="test", way=3, shot=2, query=3).save("hard.parquet")
    methods = ["protonet", "nearest-neighbour"]
    longshot.evaluate(["easy.parquet", "hard.parquet"], backbones="pixels", methods=methods, out="runs/first")
    answers = [np.asarray(labels) for labels in easy.table["query_label"].to_pylist()]
    write_predictions("predictions.parquet", easy, answers)


def _run(examples: doctest.DocTest) -> None:
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(examples, out=output.append).failed == 0, "".join(output)


def _use_fewer_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave twelve kinds of toybox."""
    from longshot.data import toybox

    fewer = take_rows(toybox.open_toybox(), np.arange(16 * 12))
    monkeypatch.setattr(toybox, "open_toybox", lambda: fewer)


@pytest.mark.parametrize("name", longshot._VERBS)
def test_the_examples_run(desk: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name in _LOOK_AT_EVERY_PICTURE:
        _use_fewer_pictures(monkeypatch)
    verb = inspect.unwrap(getattr(longshot, name))
    examples = doctest.DocTestParser().get_doctest(
        inspect.getdoc(verb) or "", {**verb.__globals__, "longshot": longshot}, name, inspect.getfile(verb), 0
    )
    shown = [example for example in examples.examples if not example.options.get(doctest.SKIP)]
    assert shown, f"longshot.{name} shows no example that runs"
    _run(examples)


@pytest.mark.parametrize("name", longshot._NOUNS)
def test_the_examples_of_a_class_run(desk: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Those of the class and of its methods."""
    if name in _LOOK_AT_EVERY_PICTURE:
        _use_fewer_pictures(monkeypatch)
    noun = getattr(longshot, name)
    names = {**vars(import_module(noun.__module__)), "longshot": longshot}
    for examples in doctest.DocTestFinder().find(noun, name, globs=names):
        if not (examples.name.endswith(".show") and "serve" in longshot._ABSENT):  # the explorer shows it
            _run(examples)


def _is_method(member: object) -> bool:
    return inspect.isfunction(member) or inspect.ismethod(member)


def _public_callables() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """(name, callable, examples of the class it belongs to): verbs, classes and their methods, functions of rooms."""
    for name in (*longshot._VERBS, *_FUNCTIONS):
        yield name, inspect.unwrap(attrgetter(name)(longshot)), ""
    # What samplers draw is documented once, with the protocols that they follow.
    shared = {name for protocol in (Shape, Classes, Instances) for name in vars(protocol)}
    for name in longshot._NOUNS:
        noun = getattr(longshot, name)
        examples = (inspect.getdoc(noun) or "").partition("Examples\n--------\n")[2]
        yield name, noun, examples
        for method_name, method in inspect.getmembers(noun, _is_method):
            own = method_name in vars(noun) and not method_name.startswith("_")
            if own and not (method_name in shared and noun.__module__.startswith("longshot.tasks.")):
                yield f"{name}.{method_name}", method, examples
    for protocol in (Shape, Classes, Instances):
        for method_name, method in inspect.getmembers(protocol, inspect.isfunction):
            if not method_name.startswith("_"):
                yield f"{protocol.__name__}.{method_name}", method, f".{method_name}("


def test_every_public_callable_documents_its_parameters_and_shows_an_example() -> None:
    """An example of a method may stand with its class."""
    lacking = []
    for name, called, of_class in _public_callables():
        text = inspect.getdoc(called) or ""
        parameters = {*inspect.signature(called).parameters} - {"self", "cls"}
        if parameters and "Parameters\n----------\n" not in text:
            lacking.append(f"{name} does not document {', '.join(sorted(parameters))}")
        if "Examples\n--------\n" not in text and f".{name.rpartition('.')[2]}(" not in of_class:
            lacking.append(f"{name} shows no example")
    assert not lacking, "\n".join(lacking)


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
            parts = examples.name.split(".")
            if parts[-1] not in longshot._VERBS and not {*longshot._NOUNS} & {*parts}:
                runner.run(examples, out=output.append)
    assert runner.tries > 100
    assert runner.failures == 0, "".join(output)
