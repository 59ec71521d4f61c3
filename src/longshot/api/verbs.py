"""How ``longshot`` offers a verb, what one would take, and those that open what others made: inspect, report, plot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from longshot.base import (
    Estimate,
    UserError,
    explain_long_names,
    is_url,
    load_target,
    nearest_name,
    plugged,
    shown_location,
)

if TYPE_CHECKING:
    from longshot.data import Dataset, DatasetLike, TaxonomyLike
    from longshot.models import BackboneLike
    from longshot.reports import FindImages, Runs
    from longshot.tasks import Inspection, Testbed

_PUT = ("sample", "evaluate", "report")  # what writes to URLs
# what a verb gets from a room that stands after its own: verb → (parameter, where that is)
_HANDED = {
    "sample": ("score", "longshot.models:method_accuracies"),
    "train": ("curves", "longshot.reports:folder_curves"),
    "find_overlap": ("render", "longshot.reports:render_overlap"),
}
Verb = TypeVar("Verb", bound=Callable[..., Any])


def public(function: Verb, name: str) -> Verb:
    """Offer ``function`` as ``longshot.name``: a parameter it does not have is a ``UserError``, not a ``TypeError``.

    What its room may not know is handed in: ``sample`` gets what judges tasks by a method.

    Parameters
    ----------
    function : callable
        The verb as its room defines it.
    name : str
        What it is called in ``longshot``.

    Examples
    --------
    >>> def draw(dataset, *, way=5): ...
    >>> public(draw, "draw")("toybox", wey=3)
    Traceback (most recent call last):
        ...
    longshot.base.errors.UserError: longshot.draw has no parameter 'wey'; did you mean 'way'?
    """

    @wraps(function)
    def call(*arguments: Any, **settings: Any) -> Any:
        check_names(function, name, settings)
        _check_urls(function, name, arguments, settings)
        if name in _HANDED:
            parameter, target = _HANDED[name]
            settings.setdefault(parameter, partial(_call_late, target))
        with explain_long_names():
            return function(*arguments, **settings)

    call.__module__, call.__qualname__ = "longshot", name  # so that it pickles by its public name
    return call  # type: ignore[return-value]


def _call_late(target: str, *arguments: Any, **settings: Any) -> Any:
    """Call what lies at ``target``, which is imported now."""
    return load_target(target)(*arguments, **settings)


def check_names(function: Callable[..., Any], name: str, settings: Iterable[str]) -> None:
    """Raise UserError for the first of ``settings`` that is no parameter of ``function``, which is called ``name``."""
    parameters = signature(function).parameters
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return  # it reads its settings itself
    for setting in settings:
        if setting not in parameters:
            hint = nearest_name(setting, parameters, "its parameters are")
            raise UserError(f"longshot.{name} has no parameter '{setting}'; {hint}")


def _check_urls(
    function: Callable[..., Any], name: str, arguments: tuple[Any, ...], settings: dict[str, Any]
) -> None:
    """Raise UserError where a verb that writes to paths alone gets a URL, which would become a folder ``s3:``."""
    if name in _PUT or not any(map(is_url, (*arguments, *settings.values()))):
        return
    bound = signature(function).bind_partial(*arguments, **settings).arguments
    for parameter in ("out", "to"):
        location = bound.get(parameter, settings.get(parameter))
        if is_url(location):
            raise UserError(
                f"{shown_location(location)} is a URL, and longshot.{name} writes to this machine alone",
                f"give {{{parameter}}} as a path",
            )


def estimate(verb: str, *subjects: Any, **settings: Any) -> Estimate:
    """Estimate what a verb with the same parameters would take in time and disk; nothing is written.

    Speeds come from a short probe on this machine: a few images through the network, a few steps, a batch of tasks.

    Parameters
    ----------
    verb : {"embed", "evaluate", "train", "run_study"}
        A function of ``longshot``.
    *subjects : objects
        What the verb is given by place.
    **settings
        What the verb is given by name.

    Returns
    -------
    Estimate
        ``steps`` (a dict each, with ``seconds`` and ``bytes``), ``notes``, and the sums ``seconds`` and ``bytes``.

    Examples
    --------
    >>> estimate("evaluate", "easy.parquet", backbones="pixels", methods="ridge").steps[-1]["left"]
    20
    """
    import longshot
    from longshot.base import using_engine

    verbs = [*_ESTIMATES, *plugged("estimates")]
    if verb not in verbs:
        raise UserError(
            f"There is no estimate of '{verb}'; {nearest_name(verb, verbs, 'there is one of each of')}"
        )
    check_names(getattr(longshot, verb), verb, settings)
    for name in ("on", "gpus_per_worker", "retry_failed"):  # what it would take here
        settings.pop(name, None)
    with using_engine(settings.pop("engine", None)):
        if verb in _ESTIMATES:
            return _ESTIMATES[verb](*subjects, **settings)
        steps, notes = load_target(plugged("estimates")[verb])(*subjects, **settings)
        return Estimate(steps, tuple(notes))


def _embed(*subjects: Any, refresh: bool = False, **settings: Any) -> Estimate:
    from longshot.models import estimate_embedding

    return Estimate([estimate_embedding(*subjects, **settings)])


def _evaluate(*subjects: Any, **settings: Any) -> Estimate:
    from longshot.evaluation import estimate_evaluation

    return Estimate(estimate_evaluation(*subjects, **settings))


def _train(
    algorithm: Any,
    dataset: Any,
    *,
    out: object = None,
    splits: Any = None,
    taxonomy: Any = None,
    **settings: Any,
) -> Estimate:
    from longshot.training import estimate_training, open_for_training, plan_training

    chosen, checked = plan_training(algorithm, settings)
    data = open_for_training(dataset, splits, taxonomy, checked.classes)
    cost = estimate_training(chosen, data, checked)
    return Estimate([cost], tuple(cost["notes"]))


_ESTIMATES: dict[str, Callable[..., Estimate]] = {
    "embed": _embed,
    "evaluate": _evaluate,
    "train": _train,
}


def inspect(
    testbed: Testbed | str | Path,
    *,
    verify: bool = False,
    sample: int | None = None,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    taxonomy: TaxonomyLike | None = None,
    reduction: str | None = None,
    html: str | Path | None = None,
    pictures: int | None = None,
    force: bool = False,
) -> Inspection:
    """Describe a testbed: its origin, its classes, ways and shots, and what was measured.

    Parameters
    ----------
    testbed : Testbed or path
        The content hash of a file is checked in any case.
    verify : bool
        Check every class and image against the dataset; reads the images again.
    sample : int, at least 1, optional
        With ``verify``: read only so many images of each dataset.
    datasets : optional
        As in ``evaluate``.
    taxonomy, reduction : optional
        As in ``measure_distances``. Coarsity of the tasks is then measured by it.
    html : FILE, file or URL, optional
        Also write a page with plots and task pictures. ``"-"`` is the screen.
    force : bool
        Replace what is at ``html``, even if it is no page that Longshot wrote.
    pictures : int, at least 0, optional
        With ``html``: how many tasks of each kind to show as pictures. Default: 2.

    Returns
    -------
    Inspection
        Prints as text; ``facts`` are plain values, ``findings`` what does not fit, ``check()`` raises them,
        ``images`` says how the images were checked and ``outcome`` what came of it.

    Examples
    --------
    >>> inspection = inspect("easy.parquet", verify=True)
    >>> inspection.facts["tasks"], inspection.findings
    (20, ())
    """
    from longshot.base import PAGE, claim_output
    from longshot.tasks import inspect

    if pictures is not None and html is None:
        raise UserError(f"{{pictures:{pictures}}} goes with {{html}} only", "say which page to write")
    if html is not None:
        claim_output(html, PAGE, force=force, name="html")
    inspection = inspect(
        testbed, verify=verify, sample=sample, datasets=datasets, taxonomy=taxonomy, reduction=reduction
    )
    if html is not None:
        _write_page(inspection, html, datasets, 2 if pictures is None else pictures)
    return inspection


def _write_page(
    inspection: Inspection,
    page: str | Path,
    datasets: Mapping[str, Dataset | str | Path] | None,
    pictures: int,
) -> None:
    from longshot.base import deliver_text
    from longshot.evaluation import find_images
    from longshot.reports import render_testbed
    from longshot.tasks import open_datasets

    if str(page) == inspection.name or Path(page).resolve() == Path(inspection.name).resolve():
        raise UserError(f"{{html:{page}}} is the testbed itself", "give the page another name")
    testbed = inspection.testbed
    if pictures:  # a page is written all the same where images are nowhere
        with contextlib.suppress(UserError):
            testbed, datasets = open_datasets(testbed, datasets, check=False)
    fingerprints = {name: (fingerprint,) for name, fingerprint in testbed.datasets.items()}
    images = find_images(fingerprints, datasets or {}) if pictures else None
    name = Path(inspection.name).name
    deliver_text(page, render_testbed(testbed, name=name, images=images, pictures=pictures))


def report(
    runs: Runs,
    out: str | Path = "report.html",
    *,
    format: str | None = None,
    pictures: int = 2,
    focus: str | None = None,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    images: FindImages | None = None,
    training: Sequence[str | Path] = (),
    title: str | None = None,
    per_class: bool = False,
    force: bool = False,
) -> Path | str:
    """Write one self-contained page, or the table alone, from the results of one or several runs.

    Parameters
    ----------
    runs : path or URL, Results, or list of those
        What to report on.
    out : file or URL
        File or URL to write, - for the screen. Default: report.html; the screen for the other formats.
    force : bool
        Replace what is there, even if it is no report that Longshot wrote.
    format : {"html", "md", "csv", "latex", "json"}, optional
        A whole page, or the table alone. Default: by the file's ending, else html.
    pictures : int, at least 0
        How many of the hardest and of the easiest tasks to show per testbed. Zero shows none.
    focus : TEXT, str, optional
        Choose and mark those tasks by the series with TEXT in its name. Otherwise by the mean over all series,
        with the marks of the best.
    datasets : optional
        As in ``evaluate``.
    images : callable, optional
        ``images(dataset_name, keys) -> list of PIL images``, in place of looking for the datasets.
    per_class : bool
        Show the accuracy of every class: a section of the page, or that table in place of the other.
    training : FOLDER, list of paths
        Folder of 'longshot train' whose learning curves to show; may be given several times.
    title : str, optional
        Heading of the page.

    Returns
    -------
    Path, or str for a URL and the screen
        Where the report is.

    Examples
    --------
    >>> report("runs/first", "report.html").name
    'report.html'
    >>> report("runs/first", "table.md").read_text().splitlines()[0].split(" | ")[:2]
    ['| Method', 'Backbone']
    """
    settings = dict(locals())  # before any other name is bound
    from longshot.base import check_writable, deliver_text, is_url
    from longshot.reports import claim_report

    settings["format"] = claim_report(settings.pop("out"), format, force=settings.pop("force"))
    if is_url(out):
        check_writable(str(out))
    deliver_text(out, report_text(**settings))
    return out if is_url(out) or str(out) == "-" else Path(out)


def report_text(
    runs: Runs,
    *,
    format: str = "html",
    pictures: int = 2,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    images: FindImages | None = None,
    **settings: Any,
) -> str:
    """Make what :func:`report` writes, as text."""
    from longshot.evaluation import find_images
    from longshot.reports import read_runs, render_report

    data = read_runs(runs)
    if images is None and format == "html" and pictures:
        images = find_images(data.fingerprints(), datasets)
    return render_report(data, format=format, images=images, pictures=pictures, **settings)


def plot_splits(
    splits: Sequence[str],
    dataset: DatasetLike,
    *,
    backbone: BackboneLike,
    out: str | Path,
    force: bool = False,
    order: str | Path | None = None,
    device: str = "auto",
    engine: str | None = None,
) -> None:
    """Draw the classes in the plane of their first two principal components, a panel per split.

    Parameters
    ----------
    splits : sequence of str
        Files, published splits, "random" or "semantic", as ``compare_splits`` takes them.
    dataset : Dataset, str or Path
        Dataset whose classes the splits name: a name or a path.
    backbone : str or object
        Backbone whose features give the class embeddings. Anything that ``embed`` takes.
    order : optional
        As in ``compare_splits``.
    out : file
        Picture: FILE.png, .svg or .pdf.
    force : bool
        Replace what is there, even if it is no picture that Longshot drew.
    device, engine : optional
        As in ``embed``.

    Examples
    --------
    >>> plot_splits(["random"], "toybox", backbone="pixels", out="splits.svg")
    >>> Path("splits.svg").exists()
    True
    """
    from longshot.base import PICTURE, claim_output
    from longshot.data import as_dataset
    from longshot.models import embed
    from longshot.reports import SplitPanel, class_map
    from longshot.tasks import class_embeddings, open_splits

    claim_output(out, PICTURE, force=force)
    opened = as_dataset(dataset)
    named = open_splits(splits, opened, order=order)
    panels = [SplitPanel(name, split.positions(opened)) for name, split in named.items()]
    features = embed(opened, backbone, device=device, engine=engine)
    title = f"{opened.name}, {len(opened.class_ids):,} classes, {features.backbone}"
    class_map(class_embeddings(features), panels, Path(out), title)
