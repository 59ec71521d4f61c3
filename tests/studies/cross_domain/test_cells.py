"""Cells of the study of domains: equal budgets, one change between neighbours, what is left out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from longshot.base import UserError
from longshot.data import open_dataset
from longshot.models import get_network, load_checkpoint, save_checkpoint
from longshot.studies.cross_domain.cross_domain_cells import (
    BASELINES,
    CONDITIONS,
    WITHIN_DOMAIN,
    all_evaluations,
    cells,
    draw_of,
)
from longshot.studies.cross_domain.cross_domain_plan import DomainData, make_domains
from longshot.studies.cross_domain.cross_domain_recipe import (
    CrossDomain,
    StartWeights,
    all_trainings,
    left_out,
)


@pytest.fixture(scope="module")
def data(request: pytest.FixtureRequest) -> DomainData:
    from longshot.studies import get_study

    return make_domains(get_study("cross-domain-small").settings, open_dataset("toybox"))


def test_every_cell_has_the_same_budget(settings_of: Any, data: DomainData) -> None:
    """From either start, own or shared: the same steps, validations and validation tasks for a baseline."""
    settings = settings_of("train_tasks=100", "validate_every=30", preset="cross-domain-small")
    trainings = all_trainings(settings, data)
    names = ("steps", "validate_every", "validation_tasks", "batch", "size")
    budgets: dict[str, set[tuple[Any, ...]]] = {}
    for name, training in trainings.items():
        if "start" in training.options:
            budgets.setdefault(name.rsplit(" ", 1)[1], set()).add(tuple(training.options[n] for n in names))
    assert budgets == {
        "multiclass": {(100, 30, 8, 16, 28)},
        "matching": {(100, 30, 8, 1, 28)},
        "protonet": {(100, 30, 8, 1, 28)},
        "fomaml": {(50, 15, 8, 2, 28)},  # two tasks a step
        "metadelta": {(10, 3, 8, 640, 28)},  # ten batches of 64 a step
    }
    assert len(trainings) == 2 + 2 * 5 * (1 + settings.held_out)
    assert not any("minutes" in {**training.options, **training.limits} for training in trainings.values())


def test_networks_see_their_classes_and_are_judged_by_their_own_learner(
    settings_of: Any, data: DomainData
) -> None:
    settings = settings_of(preset="cross-domain-small")
    trainings = all_trainings(settings, data)
    (run,) = data.runs
    for name, training in trainings.items():
        if "validation" not in training.options:
            continue
        own = next((domain for domain in run.test if f" {domain.name} " in name), None)
        assert training.data.splits["train"] == (own.split if own else run.split).train
        algorithm = name.rsplit(" ", 1)[1]
        method = next(key for key, recipe in BASELINES.items() if recipe.algorithm == algorithm)
        start = "pre-trained" if " pre-trained " in name else "random"
        assert training.options["validation"].method == BASELINES[method].call(settings, start)


def test_conditions_change_one_thing_at_a_time(settings_of: Any) -> None:
    settings = settings_of()
    beds = [draw_of(settings, condition.kind).settings for condition in CONDITIONS]
    changes = [
        [
            *(name for name in (*before, *after) if before.get(name) != after.get(name)),
            *(["network"] if first.trained != second.trained else []),
        ]
        for before, after, first, second in zip(beds, beds[1:], CONDITIONS, CONDITIONS[1:], strict=False)
    ]
    assert [set(change) for change in changes] == [{"network"}, {"split"}, {"shape"}]


def test_every_network_is_evaluated_once_and_train_from_scratch_has_its_start(
    settings_of: Any, data: DomainData
) -> None:
    settings = settings_of(preset="cross-domain-small")
    evaluations = all_evaluations(settings, data)
    assert len({(each.backbone, each.methods) for each in evaluations}) == len(evaluations)
    scratch = {
        each.backbone: (each.methods, len(each.testbeds))
        for each in evaluations
        if str(each.methods).startswith("train")
    }
    assert scratch == {
        "run 1 random weights": ("train-from-scratch(steps=50)", 3 * settings.held_out),
        "pre-trained weights": ("train-from-scratch(fresh=False, steps=50)", 3 * settings.held_out),
    }
    assert {each.backbone for each in evaluations} == set(all_trainings(settings, data))


def test_cells_whose_training_hit_the_ceiling_are_named_loudly(settings_of: Any, data: DomainData) -> None:
    settings = settings_of(
        "methods=[matching, fomaml]", "starts=random", "minutes=2", preset="cross-domain-small"
    )
    late = cells(settings, data, WITHIN_DOMAIN, "random", "fomaml")[0].network
    networks = {name: SimpleNamespace(ceiling=name == late) for name in all_trainings(settings, data)}
    lab: Any = SimpleNamespace(settings=settings, data=data, networks=networks)
    assert left_out(lab) == [
        "LEFT OUT: fomaml from random weights, within-domain: 1 of 2 trainings hit the ceiling of 2 minutes before "
        "their budget was done, so it does not compare with the others."
    ]


class _Folder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def step(self, name: str, inputs: Any, files: Any, work: Any) -> None:
        work()


def start(path: Path, architecture: str = "cnn4(width=4)", **options: Any) -> Any:
    nothing: Any = None
    weights = StartWeights("w", nothing, "none", {"size": 16, **options}, options, architecture=architecture)
    folder: Any = _Folder(path)
    return load_checkpoint(weights.record(folder, "cpu").path)[0]


def test_random_weights_depend_on_the_run_and_given_ones_are_taken(tmp_path: Path) -> None:
    first, again, other = (
        start(tmp_path / str(n), network="cnn4(width=4)", seed=seed).state_dict()
        for n, seed in enumerate((1, 1, 2))
    )
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)
    network = get_network("cnn4(width=4)", size=(16, 16), seed=7)
    saved = save_checkpoint(tmp_path / "saved", network, {"preprocessing": "decode|resize(16,16)"})
    taken = start(tmp_path / "given", start=str(saved)).state_dict()
    assert all(torch.equal(value, taken[key]) for key, value in network.state_dict().items())
    # the random start of an architecture that comes with weights forgets them
    fresh = start(tmp_path / "fresh", network=str(saved), seed=1).state_dict()
    assert any(not torch.equal(value, fresh[key]) for key, value in network.state_dict().items())


def test_starts_of_two_architectures_are_refused(tmp_path: Path) -> None:
    network = get_network("cnn4(width=8)", size=(16, 16))
    saved = save_checkpoint(tmp_path / "saved", network, {"preprocessing": "decode|resize(16,16)"})
    with pytest.raises(UserError, match="are those of another architecture than 'cnn4\\(width=4\\)'"):
        start(tmp_path, start=str(saved))


@pytest.mark.parametrize("changes", [(), ("methods=[prototypical]", "starts=random")])
def test_comparisons_name_start_baseline_and_each_step(settings_of: Any, changes: tuple[str, ...]) -> None:
    factors = [each.factor for each in CrossDomain().comparisons(settings_of(*changes))]
    steps = ["protocol", "training.domains", "testbed.split", "testbed.shape"]
    pairs = ["training.start", "baseline", "baseline"]
    assert factors == (steps if changes else [*steps, *pairs, *pairs])
