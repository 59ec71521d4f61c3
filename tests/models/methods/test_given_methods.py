"""Methods handed over in memory: what they compute, what identifies them, what is asked for where nothing does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from longshot.base import UserError
from longshot.models import ImageMethod, Method, ProtoNet, get_method, load_backbone
from longshot.models.methods.method_checks import World, run_checks, run_method


def nearest(support: Tensor, label: Tensor, query: Tensor, way: int, scale: float = 1.0) -> Tensor:
    scores = torch.full((len(query), way), float("-inf"))
    for present in label.unique():
        scores[:, present] = -scale * (query - support[label == present].mean(0)).square().sum(1)
    return scores


class Head(nn.Module):
    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, support: Tensor, label: Tensor, query: Tensor, way: int) -> Tensor:
        return nearest(support, label, query, way, float(self.scale))


class NearestMean:
    """A classifier with fit and predict alone."""

    def fit(self, rows: Any, labels: Any) -> None:
        self.labels = np.unique(labels)
        self.means = np.stack([rows[labels == label].mean(0) for label in self.labels])

    def predict(self, rows: Any) -> Any:
        return self.labels[((rows[:, None] - self.means) ** 2).sum(2).argmin(1)]


def _method(handed: Any) -> Method:
    method = get_method(handed)
    assert not isinstance(method, ImageMethod)
    return method


def predictions(handed: Any) -> list[list[int]]:
    world, rng = World.make(), np.random.default_rng(0)
    tasks = [world.task(rng, [3, 2, 4], [4, 4, 4]) for _ in range(5)]
    return [scores.argmax(1).tolist() for scores in run_method(_method(handed), world, tasks)]


@pytest.mark.parametrize(
    "handed", [nearest, functools.partial(nearest, scale=2.0), Head(), NearestMean(), NearestMean, ProtoNet]
)
def test_all_kinds_answer_as_the_nearest_mean_does(handed: Any) -> None:
    assert predictions(handed) == predictions("protonet")


def test_a_function_keeps_the_rules_and_has_its_keywords_as_settings() -> None:
    assert {result for _, result, _ in run_checks(_method(nearest))} == {"kept"}
    assert get_method(nearest).settings == {"scale": 1.0}
    assert (get_method(nearest).call, get_method(nearest).setting) == ("nearest", "transductive")


def test_scikit_learn_estimators_are_called_by_what_is_not_default() -> None:
    svm = pytest.importorskip("sklearn.svm")
    assert get_method(svm.SVC(C=2)).call == "SVC(C=2)"
    assert get_method(svm.SVC(C=2)).identity != get_method(svm.SVC(C=3)).identity
    assert predictions(svm.SVC(C=2)) == predictions("sklearn:sklearn.svm.SVC(C=2)")


def test_a_label_is_a_name_and_no_part_of_the_identity() -> None:
    for handed in (nearest, "protonet", ProtoNet(), "mine=protonet"):
        labelled = get_method(handed, "Ours (α)")
        assert labelled.call == "Ours (α)"
        assert labelled.identity == get_method(handed).identity
    assert get_method("Ours=protonet(distance='cosine')").call == "Ours"
    assert get_method("Ours=protonet(distance='cosine')").identity == "protonet(distance='cosine')@1"


ALPHA = 1.0


def scaled(rows: Tensor) -> Tensor:
    return rows * ALPHA


def with_globals(support: Tensor, label: Tensor, query: Tensor, way: int) -> Tensor:
    return nearest(support, label, scaled(query), way)


def closing_over(value: Any) -> Callable[..., Any]:
    def method(support: Tensor, label: Tensor, query: Tensor, way: int) -> Any:
        return value

    return method


@pytest.mark.parametrize(
    ("one_value", "other"),
    [
        (1, 2),
        (1, True),
        ([1, {"a": 2}], [1, {"a": 3}]),
        (np.arange(3), np.arange(3) + 1),
        (torch.zeros(2), torch.ones(2)),
        (lambda x: x, lambda x: -x),
        (Head(1.0), Head(2.0)),
        (functools.partial(nearest, scale=1.0), functools.partial(nearest, scale=2.0)),
        ({1, 2}, {1, 3}),
        (np.mean, np.median),
    ],
)
def test_what_a_function_closes_over_is_part_of_it(one_value: Any, other: Any) -> None:
    identities = [get_method(closing_over(value)).identity for value in (one_value, one_value, other)]
    assert identities[0] == identities[1] != identities[2]


def test_what_a_function_reads_of_its_module_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = get_method(with_globals).identity
    assert get_method(with_globals).identity == before
    monkeypatch.setitem(globals(), "ALPHA", 2.0)  # read by a function that it calls
    assert get_method(with_globals).identity != before


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.random.default_rng(0), "'value', which method uses, is a Generator"),
        (np.array([object()]), "'value', which method uses, is an array of objects"),
        (iter([1]), "'value', which method uses, is a list_iterator"),
    ],
)
def test_a_version_is_asked_for_where_a_value_cannot_be_compared(value: Any, reason: str) -> None:
    method = closing_over(value)
    with pytest.raises(UserError) as error:
        get_method(method)
    assert str(error.value) == (
        f"Whether method has changed cannot be seen, since {reason}; give it a version, as in method.version = 1, and "
        "another one after every change."
    )
    method.version = 3  # type: ignore[attr-defined]
    assert get_method(method).identity == "method@version-3"


def test_code_without_a_source_needs_a_version_too() -> None:
    space: dict[str, Any] = {}
    exec("def made(support, label, query, way): return query", space)
    with pytest.raises(
        UserError, match="since the source of made is not on record; give it a version, as in made"
    ):
        get_method(space["made"])
    with pytest.raises(
        UserError, match="isinstance has changed cannot be seen, since it is not written in Python;"
    ):
        get_method(isinstance)


@pytest.mark.parametrize(
    ("handed", "sentence"),
    [
        ("knn", "There is no method 'knn'; it is 'nearest-neighbour(k=5)' here."),
        (
            "dinov2",
            "There is no method 'dinov2'; it is a network: give 'hf:facebook/dinov2-small' as a backbone.",
        ),
        ("clip", "There is no method 'clip'; it is a network: give 'clip_vit_base' as a backbone."),
        ("resnet50", "There is no method 'resnet50'; it is a network: give 'resnet50' as a backbone."),
        (lambda support, label: 0, "The function lambda takes (support, label); 4 arguments come first"),
    ],
)
def test_other_names_and_functions_of_another_kind_are_told(handed: Any, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        get_method(handed)
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("kNN", "There is no backbone 'kNN'; it is a method, called 'nearest-neighbour(k=5)' here."),
        ("dinov2", "write 'hf:facebook/dinov2-small' with LONGSHOT_ALLOW_DOWNLOAD=1"),
        ("clip", "write 'clip_vit_base' with LONGSHOT_ALLOW_DOWNLOAD=1"),
        ("efficientnet", "There is no backbone 'efficientnet'; write 'efficientnet-lite0'."),
    ],
)
def test_other_names_of_backbones_are_told(name: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        load_backbone(name)
    assert sentence in str(error.value)
