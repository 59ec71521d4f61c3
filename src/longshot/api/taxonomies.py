"""``longshot.open_taxonomy``: the hierarchy of a dataset or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from longshot.core.arrays import Ints

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.taxonomy.dag import Taxonomy


class ClassHierarchy(NamedTuple):
    """A taxonomy with the classes that it is looked at for."""

    name: str
    taxonomy: Taxonomy
    class_ids: tuple[str, ...]
    images: Ints | None  # per class; None where only the taxonomy is known


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
