"""Words that messages share: a number with its noun, the start of a list, and notes that stop nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from longshot.base.errors import in_words


def count(members: Sequence[object] | int, singular: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> count(["a"], "image"), count(1200, "class", "classes")
    ('1 image', '1,200 classes')
    """
    number = members if isinstance(members, int) else len(members)
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def first(members: Sequence[object], shown: int = 3) -> str:
    """The first ``shown`` of a list, each between quotes, and how many more there are.

    >>> first(["ant", "bee", "cat", "dog"])
    "'ant', 'bee', 'cat' and 1 more"
    """
    text = ", ".join(f"'{member}'" for member in members[:shown])
    more = len(members) - shown
    return f"{text} and {more:,} more" if more > 0 else text


def span(values: Iterable[float]) -> str:
    """The range of a number, with at most one decimal.

    >>> span([5, 5]), span([20, 2, 7]), span([1.5, 4.0])
    ('5', '2–20', '1.5–4')
    """
    numbers = list(values)
    low, high = (f"{number:.1f}".removesuffix(".0") for number in (min(numbers), max(numbers)))
    return low if low == high else f"{low}–{high}"


def note(text: str) -> None:
    """Print something that the user should know and that stops nothing, on standard error.

    ``text`` may mention parameters and calls between braces, as in a ``UserError``.
    """
    print(f"note: {in_words(text)}", file=sys.stderr)
