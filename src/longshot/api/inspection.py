"""``longshot.inspect`` with a page of pictures; apart from drawing, which it need not import."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from longshot.base import UserError

if TYPE_CHECKING:
    from longshot.data import Dataset, TaxonomyLike
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
        Check every class and every image against the datasets; the images are read again.
    sample : int, optional
        With ``verify``: read only so many images of each dataset.
    datasets : mapping, optional
        Where a dataset lives (name → dataset or path), if not where it was last seen.
    taxonomy : str, Path or Taxonomy, optional
        Also measure the coarsity of the tasks by this hierarchy: a taxonomy file, or "wordnet" for classes that are
        called by WordNet ids.
    reduction : {"shortest-paths"}, optional
        Also measure it on one shortest path per class.
    html : path, optional
        Also write a page with plots and pictures of tasks; ``"-"`` is the screen.
    pictures : int, optional
        With ``html``: how many tasks of each kind to show as pictures; 2 unless given, 0 for none.
    force : bool
        Replace what is at ``html``, even if it is no page that Longshot wrote.

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

    if str(page) == inspection.name or Path(page).resolve() == Path(inspection.name).resolve():
        raise UserError(f"{{html:{page}}} is the testbed itself", "give the page another name")
    fingerprints = {name: (fingerprint,) for name, fingerprint in inspection.testbed.datasets.items()}
    images = find_images(fingerprints, datasets or {}) if pictures else None
    name = Path(inspection.name).name
    deliver_text(page, render_testbed(inspection.testbed, name=name, images=images, pictures=pictures))
