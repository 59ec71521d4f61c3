"""What two datasets share, as a page: counts, related classes and pictures of the pairs, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import UserError, progress
from longshot.reports.frame import Section, write_page
from longshot.reports.pictures import thumbnail

if TYPE_CHECKING:
    from PIL.Image import Image

Pictures: TypeAlias = Callable[[str, list[str]], "list[Image]"]  # side ("a" or "b") and keys → images

_HEADINGS = {"exact": "Exact copies", "near": "Near copies", "similar": "Neighbours in the embedding"}
_CLASSES = 200  # related classes listed; beyond it the page says how many it leaves out


def render_overlap(
    pairs: pa.Table,
    counts: Sequence[Mapping[str, Any]],
    meta: Mapping[str, Any],
    *,
    images: Pictures | None = None,
    pictures: int = 48,
    title: str | None = None,
) -> str:
    """The page as one text without any reference to another file.

    ``pairs`` has the columns of an overlap file, ``counts`` one row per kind, ``meta`` the facts about both datasets.
    """
    a, b = meta["a"], meta["b"]
    within = a["fingerprint"] == b["fingerprint"]
    facts = {"a": a, "b": b, "counts": counts, "meta": meta}
    sections = [Section("counts", "What they share", facts, "overlap_counts")]
    if meta["classes"]:
        shown = list(meta["classes"])[:_CLASSES]
        context = {"a": a, "b": b, "classes": shown, "more": len(meta["classes"]) - len(shown)}
        sections.append(Section("classes", "Related classes", context, "overlap_classes"))
    with progress("pictures", total=None, unit="pairs") as bar:
        for kind, heading in _HEADINGS.items():
            table = pairs.filter(pc.equal(pairs["kind"], kind))
            if not table.num_rows or not pictures:
                continue
            chosen = table.slice(0, pictures).to_pylist()
            context = {"a": a, "b": b, "kind": kind, "more": table.num_rows - len(chosen), "problem": None}
            try:
                context["pairs"] = _shown(chosen, images)
            except UserError as error:
                context.update(pairs=[], problem=f"No pictures: {error}")
            bar.advance(len(chosen))
            sections.append(Section(kind, heading, context, "overlap_pairs"))
    return write_page(
        title or (f"Copies within {a['name']}" if within else f"Overlap of {a['name']} and {b['name']}"),
        sections,
        counts=[f"{row['pairs']:,} {row['kind']}" for row in counts],
        style="overlap.css",
        sortable=True,
    )


def _shown(pairs: list[dict[str, Any]], images: Pictures | None) -> list[dict[str, Any]]:
    """Pairs with both pictures as data URIs."""
    if images is None:
        raise UserError("this page was made without access to the images.")
    sources = {
        side: [thumbnail(image) for image in images(side, [pair[f"key_{side}"] for pair in pairs])]
        for side in "ab"
    }
    return [
        {**pair, "source_a": source_a, "source_b": source_b}
        for pair, source_a, source_b in zip(pairs, sources["a"], sources["b"], strict=True)
    ]
