"""Run a study by name, or from a file of one's own: settings, data, then its recipe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longshot.base import with_executor
from longshot.models import with_engine
from longshot.studies.engine.data import Datasets, given_datasets
from longshot.studies.engine.job import StudyEstimate, StudyJob, StudyOutcome
from longshot.studies.engine.presets import Study, get_study, layered, read_study
from longshot.studies.engine.recipe import get_recipe


@with_engine
@with_executor
def run_study(
    study: str | Path | Study,
    datasets: Datasets = (),
    *,
    out: str | Path,
    backbone: str | None = None,
    settings: Mapping[str, Any] | None = None,
    config: str | Path | None = None,
    workers: int | None = None,
    device: str = "auto",
    engine: str | None = None,
    on: str | None = None,
    gpus_per_worker: float | None = None,
    retry_failed: bool | None = None,
) -> StudyOutcome:
    """Run a paper's protocol on datasets of your own; the same call again does only what is missing.

    The folder gets report.html (the study), run.html (all its results), tables/ (.md, .tex, .csv), figures/ (.png,
    .svg), testbeds/, run/ (results) and study.json. A call with other methods or another backbone extends the run and
    writes tables and figures for those.

    Parameters
    ----------
    study : str, Path or Study
        A preset by name, a study file of your own, or a study from ``get_study`` and ``layered``.
    datasets : dataset, sequence or mapping
        What it runs on. A study over several datasets takes them by name, as a mapping or as texts ``NAME=PATH``.
    out : path
        Folder of the study; one in which another study has finished something is refused.
    backbone : str, optional
        The setting ``backbone``, for short.
    settings : mapping, optional
        Settings that differ from the study's.
    config : path, optional
        A study file whose settings replace the preset's; ``settings`` and ``backbone`` go on top.
    workers : int, optional
        Threads, one per core by default; they change no result.
    device : str
        "auto", "cpu", "cuda" or "mps".
    engine : str, optional
        What computes backbones, as in ``embed``.
    on, gpus_per_worker, retry_failed : optional
        Where the work runs, as in ``embed``: "local", "ray" or "ray://HOST:PORT".

    Returns
    -------
    StudyOutcome
        ``path``, ``tables``, ``figures``, ``notes`` on what could not be had, and what was done step by step.

    Examples
    --------
    >>> settings = {"tasks": 12, "way": 4, "shots": [1], "query": 3, "window": 5, "methods": ["protonet", "ridge"]}
    >>> outcome = run_study("better-testbed-small", "toybox", out="studies/better", settings=settings)
    >>> (outcome.path / "report.html").is_file()
    True
    """
    resolved = resolve_study(study, backbone=backbone, settings=settings, config=config)
    return run_opened(resolved, open_data(resolved, datasets), out, device=device, workers=workers)


def estimate_study(
    study: str | Path | Study,
    datasets: Datasets = (),
    *,
    out: str | Path,
    workers: int | None = None,
    device: str = "auto",
    **changes: Any,
) -> StudyEstimate:
    """What ``run_study`` with the same arguments would take in time and disk; nothing is written.

    Testbeds that are not in the folder are drawn in memory, which is quick beside the rest.

    Returns
    -------
    StudyEstimate
        ``steps``: what is left of each, with ``seconds`` and ``bytes``; ``notes``.
    """
    resolved = resolve_study(study, **changes)
    data = open_data(resolved, datasets)
    job = StudyJob(resolved, resolved.settings, data, Path(out), device, workers)
    return get_recipe(resolved.recipe).estimate(job)


def resolve_study(
    study: str | Path | Study,
    *,
    backbone: str | None = None,
    settings: Mapping[str, Any] | None = None,
    config: str | Path | None = None,
) -> Study:
    """The study with its final settings: those of the preset, then ``config``, then ``settings``, then ``backbone``."""
    changes = {**(settings or {}), **({} if backbone is None else {"backbone": backbone})}
    if isinstance(study, Study):
        base = study
    elif isinstance(study, Path) or study.endswith((".yaml", ".yml", ".py")):
        base = read_study(study)
    else:
        base = get_study(study)
    return layered(base, config, changes)


def open_data(study: Study, datasets: Datasets) -> Any:
    """What a study runs on: one dataset, or what its recipe makes of several."""
    return get_recipe(study.recipe).open_data(study.settings, given_datasets(datasets), study.name)


def run_opened(
    study: Study, data: Any, out: str | Path, *, device: str = "auto", workers: int | None = None
) -> StudyOutcome:
    """Run a study with its final settings on data that its recipe has opened."""
    return get_recipe(study.recipe).run(StudyJob(study, study.settings, data, Path(out), device, workers))
