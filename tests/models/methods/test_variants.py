"""Methods in the settings of papers' authors, against the authors' own classes on the same features and tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longshot.base import Ragged, TaskRows, UserError
from longshot.models import (
    VARIANTS,
    Gatherer,
    feature_method,
    get_method,
    padded_batches,
    variant_methods,
    variant_of,
)

AUTHORS = {  # our name → the class of the semantic paper's authors
    "protonet": "PrototypicalNetworks",
    "finetune": "Finetune",
    "bd-cspn": "BDCSPN",
    "tim": "TIM",
    "transductive-finetuning": "TransductiveFinetuning",
    "pt-map": "PT_MAP",
}
Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def golden(shared: Path) -> Arrays:
    with np.load(shared / "golden/semantic_paper_methods.npz") as file:
        return dict(file)


def scores_of(call: str, golden: Arrays, shot: int) -> torch.Tensor:
    """[100, 50, 5] what a method answers to the golden tasks."""

    def ragged(name: str, dtype: Any = np.int64) -> Ragged:
        values = golden[f"{name}_{shot}shot"].astype(dtype)
        return Ragged(values.reshape(-1), np.arange(len(values) + 1) * values.shape[1])

    tasks = TaskRows(
        tasks=np.arange(100),
        ways=np.full(100, 5),
        support=ragged("support"),
        support_label=ragged("support_label", np.int16),
        query=ragged("query"),
        query_label=ragged("query_label", np.int16),
    )
    method = feature_method(call)
    scores = torch.empty(100, 50, 5)
    with torch.no_grad():
        for chosen, batch, _ in padded_batches(
            tasks, method, Gatherer([golden["features"]], torch.device("cpu"))
        ):
            scores[torch.from_numpy(chosen)] = method.scores(batch)
    return scores


@pytest.mark.parametrize("shot", [1, 5])
@pytest.mark.parametrize("call", VARIANTS["semantic-paper"].calls)
def test_scores_equal_those_of_the_authors_classes(golden: Arrays, call: str, shot: int) -> None:
    name = call.partition("(")[0]
    scores = scores_of(call, golden, shot)
    theirs = golden[f"{AUTHORS[name]}_{shot}shot_scores"]
    assert (scores.argmax(2).numpy() == theirs.argmax(2)).mean() >= 0.999
    answers = scores if name == "protonet" else scores.softmax(2)  # the authors' others give probabilities
    assert np.abs(answers.numpy() - theirs).max() < 1e-4


@pytest.mark.parametrize(("shot", "accuracy"), [(1, 82.64), (5, 89.40)])
def test_pt_map_that_renormalises_after_centring_gives_the_measured_accuracy(
    golden: Arrays, shot: int, accuracy: float
) -> None:
    answers = scores_of("pt-map(center='unit', steps=20)", golden, shot).argmax(2).numpy()
    assert 100 * (answers == golden[f"query_label_{shot}shot"]).mean() == pytest.approx(accuracy, abs=0.005)


def test_a_variant_gives_all_settings_and_is_recognised_by_them() -> None:
    for name, settings in VARIANTS["semantic-paper"].methods.items():
        assert set(settings) == set(get_method(name).settings), name
    for method in variant_methods([], "semantic-paper"):
        assert variant_of(method) == "semantic-paper"
    assert variant_of(get_method("tim")) is None
    assert variant_of(get_method("tim(steps=99, logits='distance')")) == "semantic-paper"


@pytest.mark.parametrize(
    ("methods", "variant", "sentence"),
    [
        (["tim"], "semantic", "There is no variant 'semantic'; did you mean 'semantic-paper'?"),
        (
            ["ridge"],
            "semantic-paper",
            "has no method 'ridge'; its methods are protonet, finetune, bd-cspn, tim,",
        ),
        (["tim(steps=5)"], "semantic-paper", "'tim(steps=5)' comes with settings, and the variant"),
        (
            [get_method("tim")],
            "semantic-paper",
            "'tim' comes with settings, and the variant 'semantic-paper'",
        ),
    ],
)
def test_what_a_variant_cannot_do_is_one_sentence(methods: Any, variant: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        variant_methods(methods, variant)
    assert sentence in str(caught.value)
