"""A hierarchy of classes put in place of a dataset's own, and what to say where there is none."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from longshot.base import UserError, first, hash_json
from longshot.data.dataset import Dataset
from longshot.data.formats.wordnet_ids import is_wordnet_id, wordnet_part
from longshot.data.taxonomy import Taxonomy
from longshot.data.taxonomy.distances import reduce_taxonomy
from longshot.data.taxonomy.readers import read_taxonomy

TaxonomyLike: TypeAlias = "str | os.PathLike[str] | Taxonomy"
WORDNET = "wordnet"


def with_taxonomy(dataset: Dataset, taxonomy: TaxonomyLike | None) -> Dataset:
    """The dataset with a hierarchy above its classes in place of its own.

    Parameters
    ----------
    dataset : Dataset
        Any dataset.
    taxonomy : str, Path or Taxonomy, optional
        A taxonomy file (see ``read_taxonomy``), ``"wordnet"`` for classes that are called by WordNet ids, or a
        taxonomy; None leaves the dataset as it is. UserError where it lacks a class.

    Returns
    -------
    Dataset
        ``taxonomy_from`` says what it was put in place from.

    Examples
    --------
    >>> from longshot.data import open_dataset
    >>> toybox = open_dataset("toybox")
    >>> flat = Taxonomy.from_edges([("toys", class_id) for class_id in toybox.class_ids])
    >>> len(with_taxonomy(toybox, flat).taxonomy) == len(toybox.class_ids) + 1
    True
    """
    if taxonomy is None:
        return dataset
    tree, name = _open(taxonomy, dataset)
    missing = [class_id for class_id in dataset.class_ids if class_id not in tree]
    if missing:
        raise UserError(
            f"The taxonomy {name} lacks {len(missing):,} of the {len(dataset.class_ids):,} classes of '{dataset.name}' "
            f"({first(missing)})",
            "add an edge 'parent,child' for each, or give another {taxonomy}",
        )
    tree = tree.restrict(dataset.class_ids)
    return replace(dataset, taxonomy=tree, taxonomy_from=f"{name} {hash_json(tree.to_json())[:12]}")


def reduced(dataset: Dataset, reduction: str | None) -> Dataset:
    """The dataset with its taxonomy reduced for all of its classes; itself where there is nothing to reduce."""
    if reduction is None or dataset.taxonomy is None:
        return dataset
    return replace(dataset, taxonomy=reduce_taxonomy(dataset.taxonomy, dataset.class_ids, reduction))


def class_labels(dataset: Dataset) -> dict[str, str]:
    """Class → what the taxonomy calls it, for the classes whose own name does not say it already."""
    labels = {} if dataset.taxonomy is None else dataset.taxonomy.labels
    names = zip(dataset.class_ids, dataset.class_names, strict=True)
    return {class_id: labels[class_id] for class_id, name in names if labels.get(class_id, name) != name}


def taxonomy_facts(dataset: Dataset, reduction: str | None) -> dict[str, str]:
    """What a file tells of the taxonomy that it was made by; nothing where it is the dataset's own and whole."""
    if dataset.taxonomy is None:
        return {}
    facts = {"taxonomy": dataset.taxonomy_from, "reduction": reduction}
    return {name: value for name, value in facts.items() if value is not None}


def has_wordnet_ids(dataset: Dataset) -> bool:
    """Whether every class is called by a WordNet id, as ImageNet's are (n01440764)."""
    return all(map(is_wordnet_id, dataset.class_ids))


def no_taxonomy(dataset: Dataset, consequence: str, remedy: str = "") -> UserError:
    """The error for a dataset whose classes have no hierarchy where one is needed.

    Parameters
    ----------
    dataset : Dataset
        One without a taxonomy.
    consequence : str
        What follows, behind "has no taxonomy": ", so no super-classes", " to compare with".
    remedy : str
        What else could be done, behind the usual ways to bring a taxonomy.
    """
    ways = "nest its class folders (Fruit/Apple, Fruit/Pear …), add a taxonomy.csv or give {taxonomy:FILE}"
    if has_wordnet_ids(dataset):
        ways = "its classes are called by WordNet ids: give {taxonomy:wordnet}, or {taxonomy:FILE}"
    return UserError(f"Dataset '{dataset.name}' has no taxonomy{consequence}", ways + remedy)


def _open(taxonomy: TaxonomyLike, dataset: Dataset) -> tuple[Taxonomy, str]:
    """The taxonomy and what it is called."""
    if isinstance(taxonomy, Taxonomy):
        return taxonomy, "that was given"
    if taxonomy != WORDNET:
        return read_taxonomy(taxonomy), Path(taxonomy).name
    other = [class_id for class_id in dataset.class_ids if not is_wordnet_id(class_id)]
    if other:
        raise UserError(
            f"{{taxonomy:wordnet}} needs classes that are called by WordNet ids, such as n01440764, and "
            f"{len(other):,} of the {len(dataset.class_ids):,} classes of '{dataset.name}' are not ({first(other)})",
            "give {taxonomy:FILE}",
        )
    return wordnet_part(dataset.class_ids), "WordNet 3.0"
