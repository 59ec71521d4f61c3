"""The recipe ``transfer-difficulty``: splits of growing distance, networks trained on each, tested on far classes.

A network trained on all classes gives the class embeddings (as in the paper), these give the splits; on every split the
methods are trained on the train classes and tested on tasks of the test classes. Tables 1, 4 and 5 and figures 2 and
3 of Arnold and Sha. The plan has two stages: what follows the splits is planned when they are made.

The claims are those of Arnold and Sha about transfer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import hash_json
from longshot.data import Dataset
from longshot.studies.engine.claims import (
    Claim,
    Measured,
    NotMeasured,
    clean_mean,
    of_slope,
    of_values,
    paired,
    unpaired,
)
from longshot.studies.engine.comparisons import Comparison
from longshot.studies.engine.lab import Lab, Plan
from longshot.studies.engine.recipe import OneDataset, Recipe
from longshot.studies.engine.study_page import Drawings
from longshot.studies.engine.study_tables import TableFile
from longshot.studies.engine.study_training import slug
from longshot.studies.transfer import transfer_plan
from longshot.studies.transfer.settings import TransferSettings
from longshot.studies.transfer.transfer_scores import (
    FIXED,
    PAIRS,
    SplitPlace,
    TransferScores,
    certificates_table,
    certified,
    steepness,
)
from longshot.studies.transfer.transfer_tables import printed_drop, printed_span
from longshot.tasks import Split, class_embeddings, compare_split

if TYPE_CHECKING:
    from pathlib import Path

    from longshot.base import Floats
    from longshot.models import Features


AnyLab = Lab[Any, Any]  # of the study; what is read off it comes through ``scores_of``
_ALIKE = 0.05
# may change in one folder: what adds splits and trainings leaves those that are there as they are
_GROWING = ("finetune_lr", "divergences", "also", "repeats")


def transfer_claims(scores_of: Callable[[AnyLab], TransferScores]) -> list[Claim[AnyLab]]:
    """List the claims of sections 5.2 to 5.4; ``scores_of`` reads the scores off the lab."""

    def of(measure: Callable[[TransferScores], Sequence[Measured]]) -> Callable[[AnyLab], Sequence[Measured]]:
        return lambda lab: measure(scores_of(lab))

    return [
        Claim(
            "falls",
            "Test accuracy of a multiclass network falls as train and test classes move apart",
            "section 5.2, figure 2; slopes in table 5",
            of(_falls),
            expects="below",
            factor="split.divergence",
        ),
        Claim(
            "validation",
            "Validation and test classes are similarly hard: within 5 points of accuracy",
            "section 5.2, figure 2",
            of(_validation),
            expects="same",
            margin=_ALIKE,
            control=of(_apart),
            printed="validation and test accuracies similarly challenge the transfer ability",
        ),
        Claim(
            "harder",
            "For every method the split of the smallest divergence is easier than that of the largest",
            "section 5.3, table 4",
            of(_harder),
            factor="split.divergence",
        ),
        Claim(
            "semantic",
            "The hardest split is more challenging than splits by meaning, which need human knowledge",
            "section 5.3, table 4",
            of(_semantic),
            printed="in almost all scenarios as — or even more — challenging",
            factor="split",
        ),
        Claim(
            "trees",
            "Trees of class embeddings are more like each other than like WordNet: splits follow looks, not meaning",
            "section 5.3, table 3",
            _trees,
            printed="1.99 to 2.26 hops between three networks, 8.35 to 8.60 to WordNet",
        ),
        Claim(
            "slower",
            "MAML degrades more slowly than methods that do not adapt their embedding",
            "section 5.4, table 5",
            of(_slower),
            expects="below",
            factor="method",
        ),
        Claim(
            "adapting",
            "When transfer is hardest, adapting the embedding helps",
            "section 5.4, table 1",
            of(partial(_on_hardest, pairs=PAIRS)),
            factor="method",
        ),
        Claim(
            "leads",
            "When transfer is hardest, MAML leads all methods that do not adapt their embedding",
            "section 5.4, table 1",
            of(_leads),
            factor="method",
        ),
        Claim(
            "gains",
            "The further train and test classes are apart, the more adapting the same network helps",
            "section 5.4, the hypothesis behind table 1; not printed over divergences",
            of(_gains),
            factor="method.solver",
        ),
    ]


def _slope(
    scores: TransferScores, label: str, method: str, against: str, printed: tuple[float, float] | None
) -> Measured:
    """Measure the slope of a method, or of its difference to another, at the most shots."""
    if len({split.target for split in scores.sweep}) < 2:
        raise NotMeasured("a slope needs at least 2 divergences, and the study has 1")
    shot = scores.shots[-1]
    unit = "per tenfold of R" if scores.logarithmic else "per unit of R"
    fit = steepness(scores, method, shot, against=against).fit
    label = f"{label}, {shot}-shot, {unit}, over {fit.n} splits"
    return of_slope(label, fit, None if scores.logarithmic else printed)


def _needs(scores: TransferScores, *methods: str) -> None:
    absent = [method for method in methods if method not in scores.methods]
    if absent:
        raise NotMeasured(f"{' and '.join(absent)} is not among the methods")


def _falls(scores: TransferScores) -> list[Measured]:
    _needs(scores, "multiclass")
    return [_slope(scores, "multiclass", "multiclass", "", printed_span(5, "multiclass", scale=100))]


def _validation(scores: TransferScores) -> list[Measured]:
    """Measure validation minus test over splits, since single ones have classes that happen to be harder."""
    _needs(scores, "multiclass")
    means = {key: clean_mean(values) for key, values in scores.parts.items()}
    pairs = [(means[split.name, "validation"], means[split.name, "test"]) for split in scores.sweep]
    differences = [first - second for first, second in pairs if np.isfinite([first, second]).all()]
    label = f"validation − test, {scores.shots[-1]}-shot, mean over {len(differences)} splits"
    return [of_values(label, np.array(differences))]


def _apart(scores: TransferScores) -> list[Measured]:
    """Measure how far apart the easiest and the hardest split are for the same network, tasks and shots."""
    near, far, shot = scores.easiest, scores.hardest, scores.shots[-1]
    if near == far:
        raise NotMeasured("its control needs 2 divergences, and the study has 1")
    tasks = (scores.tasks(column, "multiclass", shot) for column in (near, far))
    return [unpaired(f"{near} − {far}, multiclass, {shot}-shot", *tasks)]


def _differences(
    scores: TransferScores,
    near: str,
    far: str,
    printed: Callable[[str, int], float | None],
) -> list[Measured]:
    """Measure accuracy on one column minus another, by method and shots, where the budget was whole."""
    return [
        unpaired(
            f"{near} − {far}, {method}, {shot}-shot",
            scores.tasks(near, method, shot),
            scores.tasks(far, method, shot),
            printed(method, shot),
        )
        for shot in scores.shots
        for method in scores.methods
        if not scores.was_cut(near, shot, method) and not scores.was_cut(far, shot, method)
    ]


def _harder(scores: TransferScores) -> list[Measured]:
    near, far = scores.easiest, scores.hardest
    if near == far:
        raise NotMeasured("the study has 1 divergence")
    return _differences(scores, near, far, lambda method, shot: printed_drop(method, shot, near, far))


def _semantic(scores: TransferScores) -> list[Measured]:
    by_meaning = [name for name in scores.columns if name == "fc100" or name.startswith("semantic")]
    if not by_meaning:
        raise NotMeasured(
            "no split by meaning is among the splits: add semantic or fc100 to the setting also"
        )
    measured = []
    for name in by_meaning:
        printed = partial(printed_drop, near=name.upper(), far=scores.hardest)
        measured += _differences(scores, name, scores.hardest, printed)
    return measured


def _trees(lab: AnyLab) -> list[Measured]:
    raise NotMeasured(
        "it is about ImageNet-1k through three networks; 'longshot splits tree' compares such trees on any dataset"
    )


def _slower(scores: TransferScores) -> list[Measured]:
    _needs(scores, "maml")
    return [
        _slope(scores, f"{method} − maml", method, "maml", printed_span(5, method, "maml", 100))
        for method in FIXED
        if method in scores.methods
    ]


def _on_hardest(scores: TransferScores, pairs: Sequence[tuple[str, str]]) -> list[Measured]:
    """Measure differences on the same tasks of the hardest split, at the most shots."""
    column, shot = scores.hardest, scores.shots[-1]
    return [
        paired(
            f"{method} − {other}, {column}, {shot}-shot",
            scores.tasks(column, method, shot),
            scores.tasks(column, other, shot),
            printed_span(1, method, other, 100),
        )
        for method, other in pairs
        if {method, other} <= set(scores.methods) and not scores.was_cut(column, shot, method, other)
    ]


def _leads(scores: TransferScores) -> list[Measured]:
    _needs(scores, "maml")
    return _on_hardest(scores, [("maml", method) for method in FIXED])


def _gains(scores: TransferScores) -> list[Measured]:
    _needs(scores, "finetune", "multiclass")
    return [_slope(scores, "finetune − multiclass", "finetune", "multiclass", None)]


TransferLab = Lab[TransferSettings, Dataset]


class TransferDifficulty(OneDataset[TransferSettings], Recipe[TransferSettings, Dataset]):
    """Splits of growing distance, and networks trained on each."""

    settings = TransferSettings
    binding = tuple(name for name in TransferSettings.model_fields if name not in _GROWING)
    question = (
        "Networks are trained on some classes and tested on others. How does accuracy fall as the test classes get "
        "further from the train classes, and does adapting the embedding to every task help then?"
    )

    def plan(self, settings: TransferSettings, data: Dataset) -> Plan:
        """Plan the network behind the splits; everything else follows them."""
        transfer_plan.check_classes(settings, data)
        if settings.tune:
            from longshot.training import need_optuna

            need_optuna()
        absent = [
            f"{method} is left out: with one inner step from a zero head it is the same algorithm as maml; raise "
            "inner_steps, or learn the head, to compare them."
            for method in settings.methods
            if method not in settings.distinct_methods
        ]
        network = transfer_plan.ALL_CLASSES
        trained = {network.label: network.training(settings, None, data)}
        return Plan(networks=trained if settings.backbone == transfer_plan.TRAINED else {}, absent=absent)

    def work(self, lab: TransferLab) -> None:
        """Carry out the first plan; make the splits; then carry out the plan that follows them."""
        super().work(lab)
        settings, splits = lab.settings, splits_of(lab)
        for name, split in splits.items():
            split.save(_split_file(lab, name))
        lab.plan = transfer_plan.second_plan(settings, lab.data, splits)
        super().work(lab)
        for name, split in certified(splits, scores_of(lab), settings).items():
            split.save(_split_file(lab, name))
        lab.notes += [
            f"'{split.name}' has the same classes in every part as '{split.twin}'."
            for split in scores_of(lab).splits
            if split.twin
        ]
        cut = transfer_plan.cut_cells(settings, splits, lab.networks)
        if cut:
            cells = len(transfer_plan.cells(settings, splits))
            lab.notes.insert(
                0,
                f"{len(cut)} of {cells} cells had a training that hit the ceiling of "
                f"{settings.minutes:g} minutes before its {settings.steps:,} steps: they are marked ‡ and left out of "
                "slopes and claims. Raise minutes, or lower steps.",
            )

    def foreseen(self, lab: TransferLab) -> Plan:
        """Return the whole plan, by the splits of the folder if made, else by random ones of their sizes."""
        splits = {
            name: Split.load(_split_file(lab, name)) if _split_file(lab, name).is_file() else split
            for name, split in transfer_plan.stand_ins(lab.settings, lab.data).items()
        }
        later = transfer_plan.second_plan(lab.settings, lab.data, splits)
        return replace(later, networks={**lab.plan.networks, **later.networks})

    def comparisons(self, settings: TransferSettings) -> list[Comparison]:
        """List comparisons: divergences, kinds of split, methods, and adapting or not."""
        return transfer_plan.comparisons(settings)

    def claims(self, settings: TransferSettings) -> list[Claim[TransferLab]]:
        """List the claims of sections 5.2 to 5.4, tables 1, 4 and 5."""
        return transfer_claims(scores_of) if settings.divergences else []

    def tables(self, lab: TransferLab) -> list[TableFile]:
        """Make the tables of accuracies, slopes, what adapting gains, the splits, and how hard they are."""
        from longshot.studies.transfer.transfer_tables import transfer_tables

        scores = scores_of(lab)
        return [*transfer_tables(scores, lab.settings.way), certificates_table(scores, lab.settings)]

    def figures(self, lab: TransferLab) -> Drawings:
        """Return figures 2 and 3, and all methods by divergence."""
        from longshot.studies.transfer.transfer_tables import transfer_figures

        return transfer_figures(lab.settings, lab.data.name, _features(lab), splits_of(lab), scores_of(lab))


def splits_of(lab: TransferLab) -> dict[str, Split]:
    """Return all splits of the study by their names."""
    make = partial(transfer_plan.make_splits, lab.settings, lab.data)
    return lab.once("splits", lambda: make(_features(lab)), of_scores=False)


def scores_of(lab: TransferLab) -> TransferScores:
    """Return the scores that the study measured."""
    return lab.once("scores", lambda: _read_scores(lab))


def _features(lab: TransferLab) -> Features:
    """Compute the features that splits are made from: by a network trained on all classes, or a backbone."""
    backbone = lab.settings.backbone
    return lab.features(
        lab.data.name, transfer_plan.ALL_CLASSES.label if backbone == transfer_plan.TRAINED else backbone
    )


def _split_file(lab: TransferLab, name: str) -> Path:
    return lab.folder.path / "splits" / f"{slug(name)}.json"


def _read_scores(lab: TransferLab) -> TransferScores:
    settings, splits = lab.settings, splits_of(lab)

    def accuracy(split: str, method: str, shot: int, part: str = "test") -> Floats:
        """Return accuracies of a method on a part of a split, [repeats, T]."""
        testbed, solver = transfer_plan.bed_name(split, part, shot), transfer_plan.solver(settings, method)
        networks = [
            transfer_plan.training_of(settings, split, method, shot, n).label for n in range(settings.repeats)
        ]
        return np.stack([lab.scores.values(testbed, network, solver) for network in networks])

    places = measure_splits(settings, splits, _features(lab))
    swept = [split.name for split in places if split.target is not None]
    return TransferScores(
        places,
        settings.distinct_methods,
        settings.shots,
        {cell: accuracy(*cell) for cell in transfer_plan.cells(settings, splits)},
        transfer_plan.cut_cells(settings, splits, lab.networks),
        {
            (name, part): accuracy(name, "multiclass", settings.shots[-1], part)
            for name in (swept if "multiclass" in settings.methods else [])
            for part in ("train", "validation", "test")
        },
    )


def measure_splits(
    settings: TransferSettings, splits: dict[str, Split], features: Features
) -> list[SplitPlace]:
    """Return the splits with divergence and gap of their final classes; equal splits name their twin."""
    from longshot.studies.transfer.transfer_tables import class_rows

    embeddings = class_embeddings(features)
    places: list[SplitPlace] = []
    first_with: dict[str, str] = {}  # classes of all parts → the first split that has them
    for choice in transfer_plan.split_choices(settings):
        split = splits[choice.name]
        parts = {part: np.sort(rows) for part, rows in class_rows(split, features).items()}
        measured = compare_split(choice.name, parts, embeddings, features.class_ids)
        twin = first_with.setdefault(hash_json([sorted(ids) for ids in split.parts.values()]), choice.name)
        places.append(
            SplitPlace(
                choice.name,
                choice.target,
                measured.divergences[settings.measure],
                measured.gap,
                "" if twin == choice.name else twin,
                choice.draw,
            )
        )
    return places


RECIPE = TransferDifficulty()
