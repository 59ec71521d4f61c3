"""``longshot.report``: the page with its pictures, wherever the datasets lie now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.reports import FindImages, Runs


def report(
    runs: Runs,
    out: str | Path = "report.html",
    *,
    format: str | None = None,
    pictures: int = 2,
    focus: str | None = None,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    images: FindImages | None = None,
    layout: str = "plain",
    published: str | None = None,
    training: Sequence[str | Path] = (),
    title: str | None = None,
    force: bool = False,
) -> Path | str:
    """Write one self-contained page, or the table alone, from the results of one or several runs.

    Parameters
    ----------
    runs : path or URL, Results, or list of those
        What to report on.
    out : path or URL
        The file to write; ``"-"`` is the screen.
    format : str, optional
        ``"html"`` for a page, ``"md"``, ``"csv"``, ``"latex"`` or ``"json"`` for the table alone; by default what the
        file's ending stands for.
    pictures : int
        How many of the hardest and of the easiest tasks each testbed shows; 0 for none.
    focus : str, optional
        Choose and mark those tasks by the series whose name holds this text, instead of by the mean over all series
        with the marks of the best.
    datasets : mapping, optional
        Where the images of a dataset are now (name → dataset or path), if not where they were last seen.
    images : callable, optional
        ``images(dataset_name, keys) -> list of PIL images``, in place of looking for the datasets.
    layout : str
        Of Markdown and LaTeX: ``"quartiles"`` by coarsity and ``"ways"`` by the number of classes, as in tables 1 to 3
        of the semantic-sampling paper, or ``"cost"`` for time beside accuracy.
    published : str, optional
        ``"semantic"`` puts that paper's own numbers beside, marked as published.
    training : sequence of paths
        Folders of trainings whose learning curves the page shows.
    title : str, optional
        Heading of the page.
    force : bool
        Replace what is there, even if it is no report that Longshot wrote.

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
    """What :func:`report` writes, as text."""
    from longshot.evaluation import find_images
    from longshot.reports import read_runs, render_report

    data = read_runs(runs)
    if images is None and format == "html" and pictures:
        images = find_images(data.fingerprints(), datasets)
    return render_report(data, format=format, images=images, pictures=pictures, **settings)
