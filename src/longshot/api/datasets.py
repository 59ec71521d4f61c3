"""``longshot.find_overlap`` and ``longshot.open_taxonomy``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from longshot.core.arrays import Ints

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.datasets.overlap import Overlap
    from longshot.taxonomy.dag import Taxonomy


class ClassHierarchy(NamedTuple):
    """A taxonomy with the classes that it is looked at for."""

    name: str
    taxonomy: Taxonomy
    class_ids: tuple[str, ...]
    images: Ints | None  # per class; None where only the taxonomy is known


def find_overlap(
    dataset: str | Path | Dataset,
    other: str | Path | Dataset,
    *,
    backbone: str | None = None,
    similarity: float = 0.95,
    neighbours: int = 10,
    index: str = "auto",
    workers: int | None = None,
    device: str = "auto",
    out: str | Path | None = None,
    page: str | Path | None = None,
    pictures: int = 48,
) -> Overlap:
    """Find images and classes that two datasets share: exact copies, near copies, related class names.

    A near copy survives re-encoding, resizing, a crop by 5 % and mirroring; every one is compared pixel by pixel.
    The overlap is remembered: an evaluation warns when a network's training data overlaps the testbed.

    Parameters
    ----------
    dataset, other : str, Path or Dataset
        What to compare; the same one twice finds copies within it.
    backbone : str, optional
        Also look at neighbours in this embedding.
    similarity : float
        Cosine in the embedding, −1 to 1, from which a pair is listed as similar.
    neighbours : int
        Images of ``other`` looked at for each image of ``dataset``, as it is and mirrored.
    index : str
        How neighbours are found: "exact", "ivf" (FAISS), or "auto", which takes FAISS beyond 100,000 images on both
        sides.
    workers : int, optional
        Threads that read images; all cores by default.
    device : str
        Where to compute: "auto", "cpu", "cuda" or "mps".
    out : path, optional
        Also write the overlap there, as ``.parquet`` or ``.json``.
    page : path, optional
        Also write a page with pictures of the pairs.
    pictures : int
        Pairs of each kind that the page shows.

    Returns
    -------
    Overlap
        ``pairs`` (a table), ``classes``, ``counts()``, ``copies()``, ``save(path)``.

    Examples
    --------
    >>> overlap = find_overlap("toybox", "toybox", out="copies.parquet")
    >>> [row["kind"] for row in overlap.counts()]
    ['exact', 'near', 'similar']
    """
    from longshot.datasets import open_dataset
    from longshot.datasets.dataset import Dataset
    from longshot.datasets.overlap import find_overlap as find_in_room
    from longshot.datasets.overlap import pair_images

    a, b = (side if isinstance(side, Dataset) else open_dataset(side) for side in (dataset, other))
    overlap = find_in_room(
        a,
        b,
        backbone=backbone,
        similarity=similarity,
        neighbours=neighbours,
        index=index,
        workers=workers,
        device=device,
        out=out,
    )
    if page is not None:
        from longshot.core.files import write_text
        from longshot.reports.overlap_page import render_overlap

        images = pair_images(a, b)
        text = render_overlap(
            overlap.pairs, overlap.counts(), overlap.meta(), images=images, pictures=pictures
        )
        write_text(Path(page), text)
    return overlap


def open_taxonomy(source: str | Path | Dataset, *, taxonomy: str | Path | Taxonomy | None = None) -> Taxonomy:
    """The hierarchy of a dataset's classes, or of a taxonomy file.

    Parameters
    ----------
    source : str, Path or Dataset
        A dataset, or a taxonomy file: a CSV with the columns parent, child and perhaps label, a JSON list of
        [parent, child] pairs, nested JSON, or WordNet's ``data.noun``.
    taxonomy : str, Path or Taxonomy, optional
        Use this hierarchy in place of the dataset's own.

    Returns
    -------
    Taxonomy
        For a dataset without nested folders or a taxonomy: its classes below one root.

    Examples
    --------
    >>> file = Path("animals.csv")
    >>> _ = file.write_text("parent,child\\nanimal,bird\\nanimal,fish\\nbird,wren\\n")
    >>> open_taxonomy(file).leaves
    ('fish', 'wren')
    """
    return class_hierarchy(source, taxonomy).taxonomy


def class_hierarchy(
    source: str | Path | Dataset, taxonomy: str | Path | Taxonomy | None = None
) -> ClassHierarchy:
    """As :func:`open_taxonomy`, with the classes: a file's leaves, or a dataset's classes with their images."""
    from longshot.datasets import open_dataset
    from longshot.taxonomy.dag import Taxonomy
    from longshot.taxonomy.readers import is_taxonomy_file, read_taxonomy

    if isinstance(source, str | Path):
        if is_taxonomy_file(source):
            from_file = read_taxonomy(source)
            return ClassHierarchy(Path(source).stem, from_file, from_file.leaves, None)
        source = open_dataset(source)
    if taxonomy is None:
        chosen = source.taxonomy or Taxonomy.from_class_ids(source.class_ids)
    else:
        chosen = taxonomy if isinstance(taxonomy, Taxonomy) else read_taxonomy(taxonomy)
    return ClassHierarchy(source.name, chosen, source.class_ids, source.sizes)
