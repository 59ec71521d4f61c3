"""``longshot.inspect``, ``report`` and ``plot_splits``: pages and pictures, wherever the datasets lie now."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.base import UserError

if TYPE_CHECKING:
    from longshot.data import Dataset, DatasetLike, TaxonomyLike
    from longshot.models import BackboneLike
    from longshot.reports import FindImages, Runs
    from longshot.tasks import Inspection, Testbed


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
