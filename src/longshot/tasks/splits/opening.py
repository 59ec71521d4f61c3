"""One way to name any split: a file, ``random``, ``semantic``, or a published list."""

from __future__ import annotations

from pathlib import Path

from longshot.base import UserError, check_settings, parameters, parse_call
from longshot.data import SPLITS, Dataset, as_dataset
from longshot.tasks.splits import published, simple
from longshot.tasks.splits.split import Split, no_split_file

_MADE = {"random": simple.random_split, "semantic": simple.semantic_split}


def open_split(
    spec: Split | str | Path, dataset: Dataset | str | Path, *, order: str | Path | None = None
) -> Split:
    """The split that ``spec`` names, checked against ``dataset`` and in its class ids.

    Parameters
    ----------
    spec : Split, str or path
        A path of a split.json; ``random`` or ``random(seed=3, ratios=(0.5, 0.2, 0.3))``; ``semantic`` or
        ``semantic(level=1, seed=3)``; ``atg:cifar100@0.96``, ``cifar-fs``, ``fc100``.
    dataset : Dataset, str or path
        Whose classes the split divides.
    order : path, optional
        For published lists whose class names are not known: one class id a line, in the order of their numbers.

    Examples
    --------
    >>> open_split("random(seed=1)", "toybox").name
    'random(seed=1)'
    """
    dataset = as_dataset(dataset)
    text = str(spec)
    if isinstance(spec, Split) or Path(text).is_file():
        split = spec if isinstance(spec, Split) else Split.load(text)
        parts = split.resolve(dataset)
        return Split(
            split.name,
            dataset.fingerprint,
            split.story,  # checked once; from here on it is a split of this dataset
            **{part: parts.get(part, ()) for part in SPLITS},
        )
    if text in published.names() or text.startswith("atg:"):
        return published.published_split(text, dataset, order)
    name, settings = parse_call(text)
    if name in _MADE:
        defaults = {k: v for k, v in parameters(_MADE[name]).items() if k != "dataset"}
        check_settings(f"The split '{name}'", settings, defaults)
        try:
            return _MADE[name](dataset, **settings)
        except (TypeError, ValueError) as error:
            raise UserError(f"The settings of the split '{text}' do not fit ({error}).") from error
    if text.endswith(".json") or "/" in text:
        raise no_split_file(text)
    raise UserError(
        f"There is no split '{text}': give the path of a split.json, random, semantic, or a published one "
        f"({', '.join(name for name in published.names() if '@' not in name)}, atg:cifar100@0.96 …)."
    )


def with_split(
    dataset: Dataset, spec: Split | str | Path | None, *, order: str | Path | None = None
) -> Dataset:
    """``dataset`` with the split that ``spec`` names in place of its own; unchanged when ``spec`` is None."""
    return dataset if spec is None else open_split(spec, dataset, order=order).apply(dataset)
