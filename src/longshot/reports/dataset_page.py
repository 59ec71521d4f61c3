"""The page of a dataset: its table of facts, its classes in pictures, and the images that a person should look at."""

from __future__ import annotations

from typing import Any, Protocol

from longshot.base import UserError, progress
from longshot.reports.frame import Section, write_page
from longshot.reports.pictures import thumbnail

_CLASSES, _EACH = 60, 4  # classes shown, and pictures of each
_SIDE = 96  # pixels


class Sheet(Protocol):
    """What the page shows; pages do not know datasets, so that its type is not named here."""

    @property
    def dataset(self) -> Any: ...

    def rows(self) -> list[tuple[str, str]]: ...

    def class_bars(self) -> list[tuple[str, int]]: ...

    def to_look_at(self) -> list[tuple[str, list[int]]]: ...


def render_dataset(sheet: Sheet) -> str:
    """Return the page as one text without any reference to another file.

    Classes beyond sixty are counted, not shown; of each class four images, spread over it.
    """
    dataset = sheet.dataset
    chosen = range(0, len(dataset.class_ids), -(-len(dataset.class_ids) // _CLASSES))
    groups = sheet.to_look_at()
    with progress("pictures", total=len(chosen) + len(groups), unit="groups") as bar:
        classes = []
        for number in chosen:
            first, last = int(dataset.offsets[number]), int(dataset.offsets[number + 1])
            shown = range(first, last)[:: max(1, (last - first) // _EACH)][:_EACH]
            classes.append(
                {
                    "name": dataset.class_ids[number],
                    "images": int(dataset.sizes[number]),
                    "pictures": [_picture(dataset, row) for row in shown],
                }
            )
            bar.advance()
        odd = []
        for heading, rows in groups:
            odd.append({"heading": heading, "pictures": [_picture(dataset, row, crop=False) for row in rows]})
            bar.advance()
    bars = sheet.class_bars()
    most = max(number for _, number in bars)
    context: dict[str, Any] = {
        "facts": sheet.rows(),
        "bars": [(label, number, round(100 * number / most)) for label, number in bars],
    }
    sections = [Section("facts", "What is in it", context, "dataset_facts")]
    if odd:
        sections.append(Section("odd", "Look at these", {"groups": odd}, "dataset_odd"))
    more = len(dataset.class_ids) - len(classes)
    sections.append(Section("classes", "Classes", {"classes": classes, "more": more}, "dataset_classes"))
    counts = [f"{len(dataset.class_ids):,} classes", f"{len(dataset):,} images"]
    return write_page(f"Dataset {dataset.name}", sections, counts=counts, style="dataset.css")


def _picture(dataset: Any, row: int, *, crop: bool = True) -> dict[str, Any]:
    """Return a thumbnail as a data URI with its key; no source where the image cannot be read."""
    key = dataset.keys[row].as_py()
    try:
        return {"key": key, "source": thumbnail(dataset.image(row), _SIDE, crop=crop)}
    except UserError:
        return {"key": key, "source": None}
