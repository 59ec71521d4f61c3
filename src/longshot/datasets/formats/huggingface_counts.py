"""How many rows the descriptions beside a Hugging Face dataset promise, and whether they are there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longshot.core.errors import UserError
from longshot.core.wording import note
from longshot.datasets.files import read_object


def check_rows(path: Path, folders: Mapping[str, Path], rows: Mapping[str, int]) -> None:
    """Compare rows with what ``dataset_info.json`` and ``README.md`` say: an error where they vouch for it.

    A folder that ``save_to_disk`` wrote keeps the numbers from before ``filter`` and ``select``: there, another one is
    a note.

    Parameters
    ----------
    path : path
        What was opened: a folder or a file.
    folders : mapping
        Split → the folder of its shards.
    rows : mapping
        Split → its rows.
    """
    for split, number in rows.items():
        folder = folders[split]
        info = _splits(_info(folder / "dataset_info.json"))
        saved = (folder / "state.json").is_file()
        expected, said_by = _promise(info, split, alone=saved), folder / "dataset_info.json"
        if expected is None and not saved:
            for above in (folder, *folder.parents[:2]):
                expected, said_by = _promise(_readme(above / "README.md"), split), above / "README.md"
                if expected is not None or above == path:
                    break
        if expected is None or expected == number:
            continue
        called = f"The split '{split}' of {path}" if split else str(path)
        fact = f"{called} has {number:,} rows, {said_by} says {expected:,}"
        if not saved:
            raise UserError(fact, "download or copy it again")
        note(f"{fact}: rows were left out or added before it was saved, or a shard is not the right one.")


def _promise(splits: Mapping[str, int], split: str, *, alone: bool = False) -> int | None:
    """The number for a split; a dataset saved alone has no name, and then the only number is meant."""
    if split in splits:
        return splits[split]
    return next(iter(splits.values())) if alone and not split and len(splits) == 1 else None


def _info(file: Path) -> Any:
    return read_object(file).get("splits") if file.is_file() else None


def _readme(file: Path) -> dict[str, int]:
    """The splits in the head of a dataset card, where it describes one configuration."""
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return {}
    if not text.startswith("---"):
        return {}
    import yaml  # here: every folder is looked at by this format, and next to none has a dataset card

    try:
        head = yaml.safe_load(text.split("---", 2)[1])
    except yaml.YAMLError:
        return {}
    described = head.get("dataset_info") if isinstance(head, dict) else None
    if isinstance(described, list):
        described = described[0] if len(described) == 1 else None
    return _splits(described.get("splits")) if isinstance(described, dict) else {}


def _splits(listed: Any) -> dict[str, int]:
    """{split: rows} of either form: a list of entries, or entries by name."""
    entries = listed.values() if isinstance(listed, dict) else listed if isinstance(listed, list) else ()
    return {
        str(entry["name"]): entry["num_examples"]
        for entry in entries
        if isinstance(entry, dict) and "name" in entry and isinstance(entry.get("num_examples"), int)
    }
