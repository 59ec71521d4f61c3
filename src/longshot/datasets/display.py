"""How a dataset shows itself: a few lines at a prompt, pictures of its first classes in a notebook."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING

from longshot.core.errors import UserError
from longshot.core.wording import count
from longshot.datasets.dataset import SPLITS

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset

_SHOWN = 8  # classes with a picture
_SIDE = 96  # pixels of a thumbnail's longer side


def facts(dataset: Dataset) -> dict[str, str]:
    """What a person wants to know at a glance, name → text, without reading an image."""
    least, most = int(dataset.sizes.min()), int(dataset.sizes.max())
    each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    rows = {
        "images": f"{len(dataset):,} in {count(dataset.class_ids, 'class', 'classes')}, {each} a class",
        "source": dataset.source,
    }
    if dataset.splits:
        named = [name for name in (*SPLITS, *sorted(dataset.splits)) if name in dataset.splits]
        rows["splits"] = ", ".join(f"{name} {len(dataset.splits[name]):,}" for name in dict.fromkeys(named))
    extras = ["taxonomy"] if dataset.taxonomy is not None else []
    if dataset.attributes is not None:
        extras.append(f"attributes {', '.join(dataset.attributes.column_names[:6])}")
    if extras:
        rows["known"] = "; ".join(extras)
    return rows


def as_text(dataset: Dataset) -> str:
    """At most five lines."""
    lines = [f"  {name}: {text}" for name, text in facts(dataset).items()]
    return "\n".join([f"Dataset '{dataset.name}'", *lines])


def as_html(dataset: Dataset) -> str:
    """The facts as a table, and the first image of some classes as thumbnails; names are escaped."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts(dataset).items()
    )
    step = max(1, len(dataset.class_ids) // _SHOWN)
    pictures = "".join(
        _thumbnail(dataset, label) for label in range(0, len(dataset.class_ids), step)[:_SHOWN]
    )
    return f"<table><caption>{escape(dataset.name)}</caption>{rows}</table><div>{pictures}</div>"


def _thumbnail(dataset: Dataset, label: int) -> str:
    name = escape(dataset.class_names[label])
    try:
        image = dataset.image(int(dataset.offsets[label]))
    except UserError:  # an unreadable image is no reason to show nothing of the others
        return f"<figure style='display:inline-block'><figcaption>{name}: unreadable</figcaption></figure>"
    image.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=80)
    data = base64.b64encode(buffer.getvalue()).decode()
    return (
        f"<figure style='display:inline-block'><img alt='{name}' src='data:image/jpeg;base64,{data}'>"
        f"<figcaption>{name}</figcaption></figure>"
    )
