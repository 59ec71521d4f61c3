"""A user's own method from a file, scikit-learn classifiers, and the command that checks them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from longshot.base import TaskBatch, UserError
from longshot.models import Method, World, get_method
from longshot.models.methods.base import mask_absent
from longshot.models.methods.method_checks import CHECKS, _mixed, _some, run_checks, run_method

DOCS = Path(__file__).parents[3] / "docs" / "howto" / "own-method.md"
FUNCTION = """
import torch

def nearest(support, support_label, query, way, power=2):
    distance = torch.cdist(query, support) ** power
    scores = torch.full((len(query), way), float("-inf"))
    for label in support_label.unique():
        scores[:, label] = -distance[:, support_label == label].amin(1)
    return scores

nearest.setting = "inductive"
"""
CLASS = """
import torch
from longshot.models.methods.base import Method, mask_absent

class Means(Method):
    setting = "inductive"

    def __init__(self, *, scale: float = 1.0):
        self.scale = scale

    def scores(self, batch):
        return mask_absent(-self.scale * torch.cdist(batch.query, batch.class_means()) ** 2, batch)
"""


def write(folder: Path, code: str) -> Path:
    path = folder / "mine.py"
    path.write_text(code)
    return path


@pytest.fixture(scope="session")
def testbed(photos: Path, tmp_path_factory: pytest.TempPathFactory, run_cli: Any) -> Path:
    path = tmp_path_factory.mktemp("own") / "easy.parquet"
    run_cli("sample", photos, "--tasks", "20", "--way", "4", "--shot", "3", "--query", "5", "-o", path)
    return path


def evaluate(run_cli: Any, testbed: Path, method: str, out: Path, check: bool = True) -> Any:
    return run_cli(
        "evaluate", testbed, "--backbone", "pixels", "--method", method, "-o", out, "--json", check=check
    )


@pytest.mark.parametrize(("code", "name"), [(FUNCTION, "nearest"), (CLASS, "Means")])
def test_own_method_keeps_the_common_rules(code: str, name: str, tmp_path: Path) -> None:
    method = get_method(f"{write(tmp_path, code)}:{name}")
    assert [(check, reason) for check, result, reason in run_checks(method) if result != "kept"] == []


def test_own_class_equals_the_registered_method(tmp_path: Path) -> None:
    world, tasks = _mixed(8)
    own = run_method(get_method(f"{write(tmp_path, CLASS)}:Means(scale=0.5)"), world, tasks)
    for first, second in zip(own, run_method(get_method("protonet(scale=0.5)"), world, tasks), strict=True):
        first, second = (s - s.max(1, keepdims=True) for s in (first, second))
        np.testing.assert_allclose(first, second, atol=1e-3)


def test_settings_and_the_file_are_part_of_the_identity(tmp_path: Path) -> None:
    path = write(tmp_path, FUNCTION)
    plain, set_ = get_method(f"{path}:nearest"), get_method(f"{path}:nearest(power=1)")
    assert plain.call == f"{path}:nearest"
    assert set_.call == f"{path}:nearest(power=1)"
    assert set_.settings == {"power": 1}
    assert plain.identity != set_.identity
    path.write_text(FUNCTION + "\n# changed\n")
    assert get_method(f"{path}:nearest").identity != plain.identity


def test_the_only_method_of_a_file_needs_no_name(tmp_path: Path) -> None:
    assert get_method(str(write(tmp_path, CLASS))).name.endswith("mine.py:Means")


def test_a_function_counts_as_transductive_unless_it_says_otherwise(tmp_path: Path) -> None:
    code = FUNCTION.replace('nearest.setting = "inductive"', "")
    assert get_method(f"{write(tmp_path, code)}:nearest").setting == "transductive"


def test_evaluate_runs_the_method_and_keeps_a_changed_file_apart(
    run_cli: Any, testbed: Path, tmp_path: Path
) -> None:
    path = write(tmp_path, FUNCTION)
    out = tmp_path / "run"
    (first,) = json.loads(evaluate(run_cli, testbed, f"{path}:nearest", out).stdout)
    assert first["tasks"] == 20
    assert first["setting"] == "inductive"
    assert first["accuracy"] > 0.3
    path.write_text(FUNCTION.replace("-distance[", "distance["))
    again = evaluate(run_cli, testbed, f"{path}:nearest", out, check=False)
    assert again.returncode == 2
    assert "another identity" in again.stderr


HEAD = "def f(support, support_label, query, way):\n    return "
MISTAKES = {
    "raises": (
        HEAD + "1 / 0\n",
        "f",
        r"(?s)failed on task \d+: ZeroDiv.*mine.py, line 2, in f\n +return 1 / 0",
    ),
    "wrong shape": (
        HEAD + "query\n",
        "f",
        r"returned scores of the shape .* for task \d+; the shape \(20, 4\)",
    ),
    "NaN": (HEAD + "[[float('nan')] * way] * len(query)\n", "f", "NaN or infinite scores for task 0"),
    "wrong shape of a class": (
        CLASS.replace("return mask_absent(", "return batch.query[:, 0]  # "),
        "Means",
        r"returned scores of the shape .* for tasks 0 to \d+; a tensor of the shape \(\d+, 20, 4\)",
    ),
    "class raises": (
        CLASS.replace("batch.class_means()", "batch.clas_means()"),
        "Means",
        r"(?s)AttributeError.*mine.py, line \d+, in scores",
    ),
    "import": ("import no_such_module\n", "f", "(?s)cannot be loaded: ModuleNotFoundError.*mine.py, line 1"),
    "syntax": ("def f(:\n", "f", "(?s)cannot be loaded: SyntaxError.*line 1"),
    "arguments": ("def f(support, query):\n    return query\n", "f", "4 arguments come first"),
    "name": (FUNCTION, "neares", "did you mean 'nearest'"),
    "setting": (FUNCTION, "nearest(size=3)", "power=2"),
    "kind": (CLASS.replace('"inductive"', '"both"'), "Means", 'write setting = "inductive"'),
    "no method": ("x = 3\n", "x", "neither a class"),
}


@pytest.mark.parametrize(("code", "method", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_in_a_file_are_told_with_its_lines(
    run_cli: Any, testbed: Path, tmp_path: Path, code: str, method: str, sentence: str
) -> None:
    done = evaluate(run_cli, testbed, f"{write(tmp_path, code)}:{method}", tmp_path / "run", check=False)
    assert done.returncode == 2
    assert re.search(sentence, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert "longshot/models/methods" not in done.stderr  # only the user's own lines


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UserError, match=r"no file .*nothing.py"):
        get_method("nothing.py:f")


def test_check_command_lists_kept_rules(run_cli: Any, tmp_path: Path) -> None:
    done = run_cli("methods", "check", f"{write(tmp_path, FUNCTION)}:nearest")
    assert f"{len(CHECKS)} of {len(CHECKS)} rules kept" in done.stdout


def test_check_command_fails_with_a_reason_for_each_broken_rule(run_cli: Any, tmp_path: Path) -> None:
    code = FUNCTION.replace("return scores", "return scores - scores.mean(0) * 3")
    done = run_cli("methods", "check", f"{write(tmp_path, code)}:nearest", "--json", check=False)
    assert done.returncode == 1
    results = {row["check"]: row for row in json.loads(done.stdout)}
    assert results["setting"]["result"] == "broken"
    assert "inductive" in results["setting"]["reason"]
    assert results["label types"]["result"] == "kept"


def test_a_failure_is_not_taken_for_a_refusal(tmp_path: Path) -> None:
    code = FUNCTION.replace(
        "    return scores", "    assert len(support_label.unique()) == way\n    return scores"
    )
    results = {
        check: result for check, result, _ in run_checks(get_method(f"{write(tmp_path, code)}:nearest"))
    }
    assert results["absent class"] == "broken"
    refused = (
        code.replace("assert len(support_label.unique()) == way", "refuse(support_label, way)")
        + """
def refuse(support_label, way):
    from longshot.base.errors import UserError
    if len(support_label.unique()) != way:
        raise UserError("nearest needs support of every class.")
"""
    )
    results = {
        check: result for check, result, _ in run_checks(get_method(f"{write(tmp_path, refused)}:nearest"))
    }
    assert results["absent class"] == "refused"


def test_the_documented_methods_work(run_cli: Any, testbed: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n# mine\.py\n(.*?)```", DOCS.read_text(), flags=re.S)
    assert blocks
    names = []
    for number, block in enumerate(blocks):
        path = tmp_path / f"mine{number}.py"
        path.write_text(block)
        name = re.findall(r"^(?:class|def) (\w+)", block, flags=re.M)[0]
        names.append(name)
        assert all(result == "kept" for _, result, _ in run_checks(get_method(f"{path}:{name}")))
        (row,) = json.loads(evaluate(run_cli, testbed, f"{path}:{name}", tmp_path / f"run{number}").stdout)
        assert row["accuracy"] > 0.3
    assert len(names) == 2  # a class and a function


# ---- scikit-learn

SKLEARN = [
    "sklearn:sklearn.svm.SVC(C=1)",
    "sklearn:sklearn.linear_model.LogisticRegression(C=10)",
    "sklearn:sklearn.neighbors.KNeighborsClassifier(n_neighbors=1)",
    "sklearn:sklearn.linear_model.RidgeClassifier",
    "sklearn:sklearn.naive_bayes.GaussianNB",
]


@pytest.mark.parametrize("call", SKLEARN)
def test_scikit_learn_classifiers_learn_and_take_any_task(call: str) -> None:
    method = get_method(call)
    for name in ("learns", "finite", "determinism", "padding", "absent class", "class order", "setting"):
        assert CHECKS[name](method) is None


def test_scikit_learn_predictions_are_those_of_the_classifier_itself() -> None:
    world, tasks = _mixed(10)
    all_scores = run_method(get_method("sklearn:sklearn.linear_model.LogisticRegression(C=5)"), world, tasks)
    for task, scores in zip(tasks, all_scores, strict=True):
        model = LogisticRegression(C=5).fit(world.features[task.support], task.support_label)
        assert np.array_equal(scores.argmax(1), model.predict(world.features[task.query]))


def test_two_classes_and_one_class_have_scores_for_each() -> None:
    world, rng = World.make(), np.random.default_rng(0)
    tasks = [world.task(rng, [3, 3], [4, 4]), world.task(rng, [3, 0], [4, 4])]
    first, second = run_method(get_method("sklearn:sklearn.svm.SVC"), world, tasks)
    assert (first.argmax(1) == tasks[0].query_label).mean() > 0.7
    assert np.isfinite(first).all()
    assert (second.argmax(1) == 0).all()


def test_a_random_classifier_depends_on_the_task_alone() -> None:
    world, tasks = _some(count=3)
    method = get_method("sklearn:sklearn.ensemble.RandomForestClassifier(n_estimators=5)")
    first, second = run_method(method, world, tasks), run_method(method, world, tasks, limit=1)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("sklearn:sklearn.svm.SVC(c=1)", "C=1.0"),
        ("sklearn:sklearn.svm.NoSuch", "not a class with fit and predict"),
        ("sklearn:sklearn.nothing.SVC", "no module 'sklearn.nothing'"),
        ("sklearn:SVC", "import path"),
        ("sklearn:sklearn.svm.SVC(C=open('x'))", "not a plain value"),
    ],
)
def test_mistakes_in_an_import_path_are_told(call: str, sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)):
        get_method(call)


def test_a_classifier_that_refuses_its_settings_names_the_task() -> None:
    world, tasks = _some(count=2)
    with pytest.raises(UserError, match=r"failed on task 0: .*C"):
        run_method(get_method("sklearn:sklearn.svm.SVC(C=-1)"), world, tasks)


def test_without_scikit_learn_the_command_to_install_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name == "sklearn" or name.startswith("sklearn.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Hides("sklearn"), *sys.meta_path])
    with pytest.raises(UserError, match="pip install scikit-learn"):
        get_method("sklearn:sklearn.svm.SVC")


class _Hides:
    """An import system without one package."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_evaluate_runs_a_scikit_learn_classifier(run_cli: Any, testbed: Path, tmp_path: Path) -> None:
    (row,) = json.loads(evaluate(run_cli, testbed, "sklearn:sklearn.svm.SVC(C=1)", tmp_path / "run").stdout)
    assert row["setting"] == "inductive"
    assert row["accuracy"] > 0.3


class Unnamed(Method):
    """A class as docs/howto/own-method.md shows it: nothing but a setting and scores."""

    setting = "inductive"

    def __init__(self, *, power: float = 2.0) -> None:
        self.power = power

    def scores(self, batch: TaskBatch) -> torch.Tensor:
        return mask_absent(-(torch.cdist(batch.query, batch.class_means()) ** self.power), batch)


def test_an_object_of_ones_own_class_is_called_by_its_class() -> None:
    assert get_method(Unnamed(power=1.0)).call == "Unnamed(power=1.0)"
    assert Unnamed().identity == "Unnamed@1" and (Unnamed.family, Unnamed.paper) == ("own", "")
