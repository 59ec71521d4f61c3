"""``longshot.explain``: why the tasks of a testbed are hard."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from longshot.base import PAGE, UserError, claim_output, deliver_text, with_executor
from longshot.data import Dataset
from longshot.diagnosis.explanation import Explanation, compose_testbed, explain_testbed
from longshot.diagnosis.findings import LEVEL
from longshot.evaluation import Results, TestbedLike, find_images, open_distinct_testbeds
from longshot.models import with_engine
from longshot.tasks import Testbed, open_datasets

if TYPE_CHECKING:
    from longshot.models import BackboneLike

_PAGE_TASKS = 8  # tasks with pictures on a page, at least


@with_engine
@with_executor
def explain(
    testbeds: TestbedLike | Sequence[TestbedLike] | Mapping[str, TestbedLike],
    *,
    run: Results | str | os.PathLike[str] | None = None,
    focus: str | None = None,
    task: int | None = None,
    top: int = 5,
    backbone: BackboneLike | None = None,
    intervene: str = "none",
    method: str = "protonet",
    attributes: Mapping[str, str | Path] | None = None,
    no_pixels: bool = False,
    level: float = LEVEL,
    html: str | os.PathLike[str] | None = None,
    force: bool = False,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    device: str = "auto",
    engine: str | None = None,
    on: str | None = None,
    gpus_per_worker: float | None = None,
    retry_failed: bool | None = None,
) -> Explanation:
    """Say in what the supports of a testbed differ from its queries, beyond what random drawing explains.

    Parameters
    ----------
    testbeds : Testbed, path, sequence or mapping
        The first is explained task by task; the supports of the others are set beside its own.
    run : Results or path, optional
        Results on the first testbed: they give each task its accuracy, and the hardest tasks come first.
    focus : str, optional
        Take only the series of the run with this text in their names, as in ``"ridge on pixels"``; the mean over all
        series where it is left out.
    task : int, optional
        Explain this task alone.
    top : int
        How many tasks the page shows with pictures, eight or more.
    backbone : str, optional
        Also say to which class's support the queries lie nearest by the features of this backbone.
    intervene : {"none", "replace", "pixels"}
        Take suspected causes away and evaluate again: ``replace`` puts images of the same class without the cause in
        place of the supports that have it, and compares with other images that have it and with replacing as many at
        random. ``pixels`` compares with the same images altered as the supports look, and embedded. Needs ``backbone``.
    method : str
        What evaluates then: any method on features.
    attributes : mapping, optional
        Dataset → CSV with further attributes: a column ``path``, then one per attribute.
    no_pixels : bool
        Only annotated attributes; measure nothing from the pixels.
    level : float
        Share of false discoveries that is put up with, above 0 and up to 1.
    html : path, optional
        Write a page with the pictures; ``"-"`` is the screen.
    force : bool
        Replace what is at ``html``, even if it is no page that Longshot wrote.
    datasets : mapping, optional
        Name → dataset or path, for datasets that do not lie where this machine saw them last.
    device : str
        Where to compute with the backbone: auto, cpu, cuda or mps.
    engine : str, optional
        What computes backbones, as in ``embed``.
    on, gpus_per_worker, retry_failed : optional
        Where the work runs, as in ``embed``: "local", "ray" or "ray://HOST:PORT".

    Returns
    -------
    Explanation
        ``tasks`` with their findings, ``causes`` over all of them, ``compositions`` of supports and queries,
        ``further`` (the compositions of the other testbeds), ``interventions`` with what came back for each cause,
        ``accounts`` of how much is explained.

    Examples
    --------
    >>> explanation = explain(["hard.parquet", "easy.parquet"], no_pixels=True)
    >>> len(explanation.tasks), list(explanation.further)
    (6, ['easy'])
    >>> tried = explain("hard.parquet", no_pixels=True, backbone="pixels", intervene="replace")
    >>> tried.accounts[0].of
    6
    """
    if focus is not None and run is None:
        raise UserError(f"{{focus:{focus}}} goes with {{run}} only", "say which run holds the results")
    if not 0 < level <= 1:
        raise UserError(f"The share of false discoveries is {level:g}", "pass {level} above 0 and up to 1")
    if html is not None:
        claim_output(html, PAGE, force=force, name="html")
    (name, bed), *further = open_distinct_testbeds(testbeds).items()
    every = {name: bed, **dict(further)}
    _check_names("datasets", datasets, every)
    _check_names("attributes", attributes, every)
    opened = {bed_name: open_datasets(each, _of(each, datasets)) for bed_name, each in every.items()}
    explanation = explain_testbed(
        bed,
        opened[name],
        attributes=attributes,
        no_pixels=no_pixels,
        backbone=backbone,
        intervene=intervene,
        method=method,
        run=run if run is None or isinstance(run, Results) else Results(run),
        focus=focus,
        level=level,
        device=device,
    )
    compositions = {
        other: compose_testbed(each, opened[other], attributes=attributes, no_pixels=no_pixels)
        for other, each in further
    }
    explanation = replace(explanation, name=name, further=compositions)
    if task is not None:
        explanation = _only(explanation, task)
    if html is not None:
        from longshot.diagnosis.page import render_explanation  # plots take a second to import

        page = render_explanation(
            explanation, bed, images=find_images(datasets=opened[name]), tasks=max(top, _PAGE_TASKS)
        )
        deliver_text(html, page)
    return explanation


def _check_names(parameter: str, by_name: Mapping[str, object] | None, beds: Mapping[str, Testbed]) -> None:
    """UserError for a name that no testbed has as a dataset."""
    names = {name for bed in beds.values() for name in bed.datasets}
    unknown = sorted(set(by_name or {}) - names)
    if unknown:
        raise UserError(
            f"{{{parameter}}} names '{unknown[0]}', but the datasets are {', '.join(sorted(names))}."
        )


def _of(bed: Testbed, datasets: Mapping[str, Dataset | str | Path] | None) -> dict[str, Dataset | str | Path]:
    return {name: dataset for name, dataset in (datasets or {}).items() if name in bed.datasets}


def _only(explanation: Explanation, task: int) -> Explanation:
    chosen = [explained for explained in explanation.tasks if explained.task == task]
    if not chosen:
        raise UserError(
            f"The testbed has no task {task}; its {len(explanation.tasks):,} tasks are numbered from 0."
        )
    return replace(explanation, tasks=chosen)
