"""The fields of WebDataset's ``.json`` files as attributes: one column per field of plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from longshot.core.wording import count, first

_MOST = 256  # columns; files with a field per sample would fill the memory with columns that are empty


class JsonFields:
    """Values of fields, sample by sample; ``columns`` gives them as arrays.

    >>> fields = JsonFields()
    >>> fields.add({"width": 7, "tags": ["a"]})
    >>> fields.add({})
    >>> fields.columns()["width"].to_pylist()
    [7, None]
    >>> fields.left_out()
    "1 field of the .json files that holds lists or objects ('tags')"
    """

    def __init__(self) -> None:
        self.samples = 0
        self.values: dict[str, dict[int, Any]] = {}  # field → {sample: value}
        self.nested: set[str] = set()
        self.beyond: set[str] = set()

    def add(self, content: Mapping[str, Any]) -> None:
        """The fields of the next sample, empty where it has no .json."""
        for name, value in content.items():
            if isinstance(value, list | dict):
                self.nested.add(name)
            elif name in self.values or len(self.values) < _MOST:
                self.values.setdefault(name, {})[self.samples] = value
            elif len(self.beyond) < _MOST:
                self.beyond.add(name)
        self.samples += 1

    def columns(self) -> dict[str, pa.Array]:
        """{field: array [samples]}, null where a sample lacks it; a field that is nested anywhere is left out."""
        return {
            name: _column([values.get(sample) for sample in range(self.samples)])
            for name, values in self.values.items()
            if name not in self.nested and any(value is not None for value in values.values())
        }

    def left_out(self) -> str:
        """What became no column, in words; empty where everything did."""
        parts = []
        if self.nested:
            noun = count(len(self.nested), "field")
            verb = "holds" if len(self.nested) == 1 else "hold"
            parts.append(
                f"{noun} of the .json files that {verb} lists or objects ({first(sorted(self.nested))})"
            )
        if self.beyond:
            parts.append(f"fields of the .json files beyond the first {_MOST} ({first(sorted(self.beyond))})")
        return ", ".join(parts)


def _column(values: list[Any]) -> pa.Array:
    """Truth values, whole numbers, numbers or text, whichever all values are; text where they are mixed."""
    kinds = {type(value) for value in values if value is not None}
    try:
        if kinds == {int, float}:
            return pa.array(values, pa.float64())
        if len(kinds) == 1:
            return pa.array(values)
    except (pa.ArrowException, OverflowError):
        pass  # a whole number of more than 64 bits
    return pa.array([None if value is None else str(value) for value in values], pa.string())
