"""WordNet above classes that are called by WordNet ids, as ImageNet's are."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from longshot.base import UserError, count, first, hash_json, note
from longshot.data.formats.base import remembered
from longshot.data.taxonomy import Taxonomy
from longshot.data.taxonomy.readers import find_wordnet, read_wordnet

_ID = re.compile(r"n\d{8}")


def is_wordnet_id(text: str) -> bool:
    """``n01440764``: an ``n`` and the eight digits of a synset's offset."""
    return _ID.fullmatch(text) is not None


def wordnet_above(class_ids: Sequence[str], instead: Taxonomy | None = None) -> Taxonomy | None:
    """The part of WordNet above the classes; ``instead`` (with a note) where WordNet is missing or lacks a class."""
    if not all(map(is_wordnet_id, class_ids)):
        return instead
    lacking = (
        "the classes have no WordNet hierarchy"
        if instead is None
        else "only the split's own hierarchy is used"
    )
    try:
        return wordnet_part(class_ids)
    except UserError as error:
        note(f"{lacking}: {error.template}")
        return instead


def wordnet_part(class_ids: Sequence[str]) -> Taxonomy:
    """The part of WordNet above the classes; UserError where WordNet is missing or lacks a class.

    Reading all of WordNet takes over a second, so the part is remembered.
    """
    table = remembered(
        f"wordnet above {hash_json(sorted(class_ids))}", [find_wordnet()], lambda: _as_table(class_ids)
    )
    labels = dict(zip(table["child"].to_pylist(), table["label"].to_pylist(), strict=True))
    edges = [
        (parent, child)
        for parent, child in zip(table["parent"].to_pylist(), table["child"].to_pylist(), strict=True)
        if parent is not None
    ]
    return Taxonomy.from_edges(edges, labels)


def _as_table(class_ids: Sequence[str]) -> pa.Table:
    """Edges in WordNet's order with the label of the child; the root has no parent."""
    wordnet = read_wordnet()
    missing = [class_id for class_id in class_ids if class_id not in wordnet]
    if missing:
        raise UserError(
            f"WordNet 3.0 lacks {count(missing, 'class', 'classes')} of {len(class_ids):,} ({first(missing)}); are the "
            f"folders called by ImageNet's ids?"
        )
    part = wordnet.restrict(class_ids)
    edges = [(None, part.root), *part.edges]
    return pa.table(
        {
            "parent": pa.array([parent for parent, _ in edges], pa.string()),
            "child": pa.array([child for _, child in edges], pa.string()),
            "label": pa.array([part.label(child) for _, child in edges], pa.string()),
        }
    )
