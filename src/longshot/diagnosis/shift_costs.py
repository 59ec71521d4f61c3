"""``longshot attributes suggest``: how much it costs when support and queries differ in an attribute, for all of them.

For each column shifted and matched tasks of one seed are drawn (``sample --instances shifted --attribute NAME``): they
ask the same questions, and only the value of the supports differs. The cost of a column is the mean over tasks of
matched minus shifted accuracy, in points. A look, a cluster of what the backbone sees, is a column of its own: images
of this look against all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from longshot.base import Floats, UserError, claim_output, pick_device, progress, with_engine
from longshot.data import Dataset, as_dataset
from longshot.diagnosis.attribute_gaps import LOOK, comparable
from longshot.diagnosis.attribute_table import KIND, image_attributes, measured_pixels, write_attributes
from longshot.diagnosis.suspicions import find_looks
from longshot.diagnosis.trials import p_of_mean
from longshot.statistics import Interval, holm, mean_interval

if TYPE_CHECKING:
    from longshot import MatchedInstances, ShiftedInstances, Testbed
    from longshot.models import BackboneLike


@dataclass(frozen=True)
class ShiftCost:
    """What a shift in one attribute costs.

    Attributes
    ----------
    attribute : str
        The column; a look is called ``look A``.
    source : {"annotated", "pixels", "look"}
        Where it comes from.
    tasks : int
        n of the intervals; 0 where no tasks could be drawn.
    matched, shifted, cost : Interval, optional
        Accuracy with supports like the queries, with others, and the difference, paired by task.
    adjusted : float, optional
        p of the t test that the cost is 0, corrected by Holm over all attributes.
    dearest : str
        The rules of the queries and of the supports where it costs most, if there are several.
    left_out : str
        Why there are no tasks.
    """

    attribute: str
    source: str
    tasks: int = 0
    matched: Interval | None = None
    shifted: Interval | None = None
    cost: Interval | None = None
    adjusted: float | None = None
    dearest: str = ""
    left_out: str = ""


@with_engine
def suggest_attributes(
    dataset: Dataset | str | Path,
    *,
    backbone: BackboneLike | None = None,
    method: str = "protonet",
    attributes: str | Path | None = None,
    no_pixels: bool = False,
    tasks: int = 100,
    way: int = 5,
    shot: int = 5,
    query: int = 5,
    seed: int = 0,
    out: str | Path | None = None,
    force: bool = False,
    device: str = "auto",
    engine: str | None = None,
) -> list[ShiftCost]:
    """Rank attributes and looks by what it costs when support and queries differ in them.

    Parameters
    ----------
    dataset : Dataset, str or path
        A dataset, its name or its path.
    backbone : str, optional
        Network that classifies, and whose clusters are the looks. Default: the first that is installed.
    method : str
        What classifies, on its features.
    attributes : path, optional
        A CSV with further attributes. It has a column ``path``, then one per attribute.
    no_pixels : bool
        Only annotated attributes and looks; measure nothing from the pixels.
    tasks : int, at least 2
        Shifted tasks of each attribute, and as many matched ones.
    way : int, at least 1
        Classes of a task.
    shot : int, at least 1
        Support images of a class.
    query : int, at least 1
        Queries of a class.
    seed : int, at least 0
        Random seed.
    out : file, optional
        Write all attributes and looks as CSV (.csv) or Parquet. Beside the images as attributes.csv, the file makes
        them usable in ``sample``.
    force : bool
        Replace what is there, even if Longshot did not write it.
    device, engine : optional
        As in ``embed``.

    Returns
    -------
    list of ShiftCost
        The dearest first; those without tasks last.

    Examples
    --------
    >>> ranked = suggest_attributes("toybox", backbone="pixels", no_pixels=True, tasks=10, way=3, shot=2, query=2)
    >>> ranked[0].tasks
    10
    """
    from longshot import FixedShape, MatchedInstances, ShiftedInstances, sample
    from longshot.models import default_networks, embed_rows, feature_method, spread_accuracies

    if tasks < 2:
        raise UserError(f"There is no interval over {tasks} tasks", "ask for {tasks:100}")
    ending = None if out is None else claim_output(out, KIND, force=force)
    opened = as_dataset(dataset)
    annotated = image_attributes(opened, attributes=attributes)
    pixels = None if no_pixels else measured_pixels(opened, altered=False)
    table = image_attributes(opened, attributes=attributes, pixels=pixels)
    features = embed_rows(opened, backbone or default_networks()[0], np.arange(len(opened)), device=device)
    sources = dict.fromkeys(table.column_names, "pixels") | dict.fromkeys(annotated.column_names, "annotated")
    for column in find_looks(opened, features, np.arange(len(opened)), comparable(table)[0])[0]:
        table = table.append_column(f"{LOOK} {column.value}", pa.array(column.numbers == 1))
    if out is not None and ending is not None:
        write_attributes(opened, table, out, ending)
    marked = replace(opened, attributes=table)
    shape = FixedShape(way=way, shot=shot, query=query)
    chosen, where = feature_method(method), pick_device(device)

    def accuracy(rule: ShiftedInstances | MatchedInstances) -> tuple[Testbed, Floats]:
        bed = sample(marked, tasks=tasks, shape=shape, instances=rule, seed=seed, drop_small=True)
        bound = bed.bind(marked.name, marked.keys, marked.fingerprint)
        return bed, spread_accuracies(bound, chosen, features.array, where)

    costs = []
    with progress("shift", total=table.num_columns, unit="attributes") as bar:
        for name in table.column_names:
            cost = ShiftCost(name, sources.get(name, LOOK))
            try:
                bed, shifted = accuracy(ShiftedInstances(attribute=name))
                cost = _measured(cost, bed, shifted, accuracy(MatchedInstances(attribute=name))[1])
            except UserError as error:
                cost = replace(cost, left_out=str(error))
            costs.append(cost)
            bar.advance()
    tested = [each for each in costs if each.adjusted is not None]
    adjusted = dict(
        zip(map(id, tested), holm([each.adjusted or 0.0 for each in tested]).tolist(), strict=True)
    )
    ranked = [replace(each, adjusted=adjusted.get(id(each))) for each in costs]
    return sorted(ranked, key=lambda each: -np.inf if each.cost is None else each.cost.mean, reverse=True)


def _measured(cost: ShiftCost, bed: Testbed, shifted: Floats, matched: Floats) -> ShiftCost:
    """Add the accuracies of T tasks, the p of their difference, and the rules with which it is largest."""
    apart = matched - shifted
    rules, rule = np.unique(np.array(bed.table.column("setting").to_pylist()), return_inverse=True)
    means = np.bincount(rule, apart) / np.bincount(rule)
    return replace(
        cost,
        tasks=len(apart),
        matched=mean_interval(matched),
        shifted=mean_interval(shifted),
        cost=mean_interval(apart),
        adjusted=p_of_mean(apart),
        dearest=str(rules[means.argmax()]) if len(rules) > 1 else "",
    )
