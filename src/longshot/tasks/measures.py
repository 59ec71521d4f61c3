"""What is measured of tasks: coarsity, what their images are like, how much harder chosen supports are, suspects.

Coarsity is measured on every task, and of drawn tasks again by another taxonomy. Drops are those of the judges and of
networks that took no part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from longshot.audit import reviewed
from longshot.base import Floats, Ints, LooseRecord, Ragged, TaskPlan, TaskRows, UserError, read_record
from longshot.data import (
    Dataset,
    TaxonomyLike,
    class_distances,
    coarsity,
    distances_among,
    no_taxonomy,
    taxonomy_facts,
    with_checked_attributes,
    with_taxonomy,
)
from longshot.statistics import mean_interval, percent, plus_minus, t_quantile
from longshot.tasks import columns
from longshot.tasks.base import Classes, Pool
from longshot.tasks.testbed import Testbed
from longshot.tasks.testbed_file import sampler_parts

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.models import Suspects
    from longshot.tasks.judges import Judge


# column name → one value per task
Measure: TypeAlias = Callable[[Pool, TaskPlan, TaskRows], Mapping[str, NDArray[Any]]]

MOST_CLASSES = 8000  # above this the matrix of distances takes over half a gigabyte: not by default
_known: WeakKeyDictionary[Dataset, dict[tuple[bytes, str, str | None], Floats]] = WeakKeyDictionary()


def pool_distances(pool: Pool, distance: str, reduction: str | None) -> Floats:
    """Return the distances [P, P] between the pool's classes: from a file, or from taxonomy and image counts.

    Counts are those of the pool's own classes: N(v) counts images of classes that can be drawn. Computed once per
    dataset, classes, distance and reduction.
    """
    dataset = pool.dataset
    if dataset.distances is not None:
        return distances_among(dataset, pool.classes)
    if dataset.taxonomy is None:
        raise no_taxonomy(dataset, ", so its classes have no distances")
    matrices = _known.setdefault(dataset, {})
    key = (pool.classes.tobytes(), distance, reduction)
    if key not in matrices:
        counts = pool.sizes[pool.classes]
        matrices[key] = class_distances(
            dataset.taxonomy, pool.class_ids, counts, kind=distance, reduction=reduction
        )
        matrices[key].flags.writeable = False
    return matrices[key]


def coarsity_measure(pool: Pool, classes: Classes, reduction: str | None = None) -> Measure | None:
    """Return what measures the coarsity of tasks, by the distance that classes were drawn by or by the default one.

    ``reduction`` is for classes that were not drawn by a distance. None where the dataset has no taxonomy and no
    distances from a file, or more than ``MOST_CLASSES`` classes and no need of distances.
    """
    without = pool.dataset.taxonomy is None and pool.dataset.distances is None
    if without and reduction is not None:
        raise no_taxonomy(pool.dataset, " to reduce")
    uses_distances = hasattr(classes, "distance") or reduction is not None
    if without or (len(pool.classes) > MOST_CLASSES and not uses_distances):
        return None
    distance = getattr(classes, "distance", "jiang-conrath")
    distances = pool_distances(pool, distance, getattr(classes, "reduction", reduction))

    def measure(_: Pool, plan: TaskPlan, rows: TaskRows) -> Mapping[str, NDArray[Any]]:
        return {"coarsity": _coarsities(pool, plan.classes, distances)}

    return measure


def _coarsities(pool: Pool, classes: Ragged, distances: Floats) -> Floats:
    """Compute the coarsity of tasks with these class numbers from the distances [P, P] among the pool's classes."""
    number = np.full(len(pool.sizes), -1)
    number[pool.classes] = np.arange(len(pool.classes))
    return coarsity(distances, classes.with_values(number[classes.values]))


def measure_again(
    testbed: Testbed, datasets: Mapping[str, Dataset], taxonomy: TaxonomyLike | None, reduction: str | None
) -> dict[str, dict[str, Any]]:
    """Measure coarsity again: dataset → its taxonomy, and the lowest, mean and highest coarsity of its tasks by it.

    The distances are those among the classes that tasks were drawn from: of the recorded split, or all of the dataset;
    those that occur where classes were left out or the tasks come from a list.

    Parameters
    ----------
    testbed : Testbed
        Any testbed.
    datasets : mapping
        Name → the dataset that is here.
    taxonomy : str, Path or Taxonomy, optional
        In place of the datasets' own.
    reduction : str, optional
        Which paths of the taxonomy count; see ``class_distances``.
    """
    measured = {}
    for name, dataset in datasets.items():
        data = with_taxonomy(dataset, taxonomy)
        own_tasks = testbed.table.filter(pa.array(columns.of_dataset(testbed.table, name)))
        names = pa.array(data.class_ids, pa.string())
        classes = columns.ragged(own_tasks, "classes")
        classes = classes.with_values(columns.places_among(own_tasks, "classes", names)[classes.values])
        pool = Pool(data, _pool(testbed, data, np.unique(classes.values)))
        values = _coarsities(pool, classes, pool_distances(pool, "jiang-conrath", reduction))
        low, mean, high = (round(float(value), 4) for value in (values.min(), values.mean(), values.max()))
        measured[name] = {**taxonomy_facts(data, reduction), "min": low, "mean": mean, "max": high}
    return measured


def _pool(testbed: Testbed, dataset: Dataset, occurring: Ints) -> Ints:
    """Return the classes that tasks were drawn from, as far as the testbed says."""
    sampler = testbed.meta["sampler"]
    if "classes" not in sampler or sampler.get("dropped_classes") or sampler.get("splits_from"):
        return occurring
    split = sampler.get("split")
    if split is not None and split not in dataset.splits:
        return occurring
    candidates = dataset.split_classes(split)
    return candidates if np.isin(occurring, candidates).all() else occurring


def attribute_shares(
    testbed: Testbed, dataset: Dataset, attribute: str, *, part: Literal["support", "query"] = "support"
) -> dict[Any, Floats]:
    """Return value of the attribute → its share among the images of each of the dataset's T tasks, [T].

    The shares of a task add up to 1, less the images whose attribute is missing. Testbeds of one seed have the same
    tasks in the same order, so their shares can be compared task by task.
    """
    dataset = with_checked_attributes(dataset)
    columns = [] if dataset.attributes is None else dataset.attributes.column_names
    if dataset.attributes is None or attribute not in columns:
        raise UserError(
            f"Dataset '{dataset.name}' has no attribute '{attribute}'; it has: {', '.join(columns) or 'none'}."
        )
    column = dataset.attributes.column(attribute)
    bound = testbed.bind(dataset.name, dataset.keys, dataset.fingerprint)
    rows = bound.support if part == "support" else bound.query
    values = sorted(value for value in pc.unique(column).to_pylist() if value is not None)
    shares: dict[Any, Floats] = {}
    for value in values:
        has = pc.fill_null(pc.equal(column, value), False).to_numpy(zero_copy_only=False)
        counts = np.bincount(rows.owners[has[rows.values]], minlength=len(rows))
        shares[value] = counts / np.maximum(rows.lengths, 1)
    return shares


Part: TypeAlias = Literal["judge", "calibrating", "held out"]


class Share(LooseRecord):
    """A mean accuracy, or a difference of two, with half its 95 % interval over tasks (none for a single task)."""

    mean: float
    half: float | None = None

    def text(self, *, signed: bool = False) -> str:
        """Write the share in per cent, as ``62.0 ± 1.5``."""
        return plus_minus(self.mean, self.half, signed=signed)


class NetworkDrop(LooseRecord):
    """A network's accuracy on uniform and on chosen supports of the same queries; of filtered tasks: on all and on the
    chosen ones."""

    part: Part
    backbone: str = Field(min_length=1)
    method: str
    uniform: Share
    chosen: Share
    drop: Share

    @property
    def name(self) -> str:
        """Return backbone and method, ``pixels:ridge``; the backbone alone where the method is protonet."""
        return self.backbone if self.method == "protonet" else f"{self.backbone}:{self.method}"

    def texts(self) -> tuple[str, str, str, str, str]:
        """Return network, part and the three numbers as texts."""
        return self.name, self.part, self.uniform.text(), self.chosen.text(), self.drop.text(signed=True)


DROP_HEADS = ("network", "part", "uniform", "chosen", "drop")
JUDGE_COLUMN, HELD_OUT_COLUMN = "accuracy_judge_{}", "accuracy_held_out_{}"  # with _before and _after
CAPTION = "accuracy in %, mean over tasks ± half its 95 % interval; drop: uniform less chosen"


def is_network_column(name: str) -> bool:
    """Tell whether a measured column belongs to one network; such columns are shown together, as drops."""
    return name.startswith((JUDGE_COLUMN.format(""), HELD_OUT_COLUMN.format("")))


def paired_drop(part: Part, network: Judge, uniform: Floats, chosen: Floats) -> dict[str, Any]:
    """Record a network on two supports of the same tasks, both [T]."""
    return _record(part, network, _share(uniform), _share(chosen), _share(uniform - chosen))


def unpaired_drop(part: Part, network: Judge, every: Floats, chosen: Floats) -> dict[str, Any]:
    """Record a network on all tasks [A] and on the chosen ones [T]; the interval is Welch's."""
    first, second = _share(every), _share(chosen)
    half = None
    if first.half is not None and second.half is not None:
        half = math.hypot(first.half, second.half)
    return _record(part, network, first, second, Share(mean=first.mean - second.mean, half=half))


def recorded_drops(sampler: Mapping[str, Any]) -> list[list[NetworkDrop]]:
    """Read the drops of each draw that was joined into a testbed; an empty list for one without judges."""
    return [
        [read_record(NetworkDrop, record, "a recorded drop") for record in part.get("drops", ())]
        for part in sampler_parts(sampler)
    ]


def say_drops(sampler: Mapping[str, Any], datasets: Sequence[str]) -> list[str]:
    """Write a table as lines of text, judges beside held-out networks; no line where nothing was judged."""
    lines: list[str] = []
    for number, drops in enumerate(recorded_drops(sampler)):
        if not drops:
            continue
        name = datasets[number] if number < len(datasets) else f"draw {number + 1}"
        several = "" if len(sampler_parts(sampler)) == 1 else f" of {name}"
        rows = [DROP_HEADS, *(drop.texts() for drop in drops)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(DROP_HEADS))]
        lines.append(f"difficulty{several}: {CAPTION}")
        lines += [
            "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines += [f"  {line}" for line in say_others(drops)]
    return lines


_ALONE = "for the judges alone: nobody was held out; of one judge's drop a ResNet-50 met 39 to 76 % on 5 sets"
_AGREE = 0.02  # networks whose accuracies differ by more are said to differ


def say_others(drops: Sequence[NetworkDrop]) -> list[str]:
    """Say what a network that took no part meets, and whether those on record agree."""
    judges = [drop for drop in drops if drop.part == "judge"]
    free = [drop for drop in drops if drop.part != "judge"]
    if not free:
        return [_ALONE]
    searched, met = (float(np.mean([drop.drop.mean for drop in part])) for part in (judges, free))
    share = f"networks that took no part meet {percent(met / max(searched, 1e-9), 0)} % of the judges' drop"
    lines = [share] if searched > 0.005 else []
    if len(free) == 1:
        return [*lines, "a further network may lie elsewhere: hold out two or more to learn how far"]
    predicted = predict_network(free).text()
    lines.append(f"a further network: {predicted}, as {len(free)} networks that did not choose tell")
    low, *_, high = sorted(free, key=lambda drop: drop.chosen.mean)
    apart = high.chosen.mean - low.chosen.mean
    if apart > _AGREE:
        ends = " and ".join(f"{drop.name} has {drop.chosen.text()}" for drop in (low, high))
        lines.append(f"they differ by {percent(apart)} points, {ends}: their mean is no promise for one")
    return lines


def predict_network(drops: Sequence[NetworkDrop]) -> Share:
    """Predict the accuracy of a further network on the chosen tasks, from K ≥ 2 networks that did not choose them.

    Networks scatter alike on uniform tasks and on the chosen ones: s² is the mean of both variances, with 2(K − 1)
    degrees of freedom. Another one lies within m ± √(t² s² (1 + 1/K) + e²), m the mean accuracy and e the mean of half
    its 95 % intervals over tasks; no accuracy is further from m than 0 or 1.
    """
    accuracies = np.array([[drop.uniform.mean, drop.chosen.mean] for drop in drops])
    scatter = math.sqrt(accuracies.var(axis=0, ddof=1).mean() * (1 + 1 / len(drops)))
    mean, error = float(accuracies[:, 1].mean()), float(np.mean([drop.chosen.half or 0 for drop in drops]))
    half = math.hypot(t_quantile(2 * (len(drops) - 1), 0.95) * scatter, error)
    return Share(mean=mean, half=min(half, max(mean, 1 - mean)))


def _share(values: Floats) -> Share:
    interval = mean_interval(values)
    return Share(mean=interval.mean, half=interval.half)


def _record(part: Part, network: Judge, uniform: Share, chosen: Share, drop: Share) -> dict[str, Any]:
    numbers = {"uniform": uniform, "chosen": chosen, "drop": drop}
    return {
        "part": part,
        "backbone": network.features.backbone,
        "method": network.method,
        **{name: {key: rounded(value) for key, value in share} for name, share in numbers.items()},
    }


def rounded(value: float | None) -> float | None:
    """Round what a testbed records to four digits."""
    return None if value is None else round(value, 4)


def find_suspected(dataset: Dataset, judges: Sequence[Judge]) -> Suspects:
    """Find the images of a dataset whose label the judges doubt together, without those that a person keeps."""
    from longshot.models import suspects_of

    return reviewed(suspects_of(*(judge.features for judge in judges)), dataset)


def say_suspects(testbed: Testbed) -> str | None:
    """Say how many doubtful labels were left out, or how many of the supports have one; None where nobody looked.

    ``doubtful labels: 37 images (3.1 %) left out, by efficientnet-lite0``
    """
    lines = []
    for part in sampler_parts(testbed.meta["sampler"]):
        if "excluded_suspects" in part:
            facts = part["excluded_suspects"]
            share, number = 100 * facts["mislabelled"] / max(facts["images"], 1), facts["mislabelled"]
            line = f"doubtful labels: {number:,} images ({share:.1f} %) left out, by {', '.join(facts['networks'])}"
            more = facts.get("left_in", 0)
            lines.append(line + (f"; {more:,} left in, as their classes would be too small" if more else ""))
        if part.get("dropped_images"):
            lines.append(f"dropped by hand: {part['dropped_images']:,} images")
    if "suspects_after" in testbed.measured and not lines:
        before, after = (pc.mean(testbed.table[f"suspects_{when}"]).as_py() for when in ("before", "after"))
        if before is not None and after is not None:
            lines.append(
                f"doubtful labels: {percent(after)} % of the chosen supports, {percent(before)} % of uniform ones"
            )
    return "; ".join(lines) or None
