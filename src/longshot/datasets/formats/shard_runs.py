"""Shards that are numbered one after the other: gaps in the numbers, and what lists beside them say."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from longshot.core.errors import UserError
from longshot.core.wording import count, first, note

_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>\d+)(?P<ending>\.tar)")
_REMEDY = "copy the missing ones, or choose those that are there with webdataset(shards='…')"


def check_runs(shards: Sequence[Path], *, chosen: bool) -> None:
    """UserError when numbers are missing within a run of shards, or where a list beside them names more.

    Parameters
    ----------
    shards : sequence of path
        ``train-000000.tar``, ``train-000001.tar`` …, of any number of runs and folders.
    chosen : bool
        The user chose these among others: gaps are then noted, and lists of all shards are not asked.
    """
    runs: dict[tuple[Path, str, int], list[int]] = {}
    for shard in shards:
        match = _NUMBERED.fullmatch(shard.name)
        if match:
            width = len(match["number"]) if match["number"].startswith("0") else 0
            runs.setdefault((shard.parent, match["stem"], width), []).append(int(match["number"]))
    for (folder, stem, _), numbers in _joined(runs).items():
        absent = sorted(set(range(min(numbers), max(numbers) + 1)) - set(numbers))
        called = f"{folder}/{stem}*.tar"
        if absent:
            verb, listed = "is" if len(absent) == 1 else "are", ", ".join(map(str, absent[:3]))
            fact = (
                f"{called} are {count(numbers, 'shard')} numbered {min(numbers)} to {max(numbers)}, and "
                f"{count(absent, 'number')} between {verb} missing ({listed})"
            )
            if not chosen:
                raise UserError(fact, _REMEDY)
            note(f"{fact}.")
        elif min(numbers) > 0 and len(numbers) > 1 and not chosen:
            note(
                f"the shards {called} begin with number {min(numbers)}: where there is a number 0, it is missing."
            )
    if not chosen:
        for folder in sorted({shard.parent for shard in shards}):
            _check_lists(folder, [shard.name for shard in shards if shard.parent == folder])


def _joined(runs: dict[tuple[Path, str, int], list[int]]) -> dict[tuple[Path, str, int], list[int]]:
    """Runs without leading zeros joined to those with them where a number outgrew its zeros: 99, then 100."""
    joined = dict(runs)
    for folder, stem, width in runs:
        padded = next((key for key in joined if key[:2] == (folder, stem) and key[2] > 0), None)
        if width == 0 and padded is not None:
            joined[padded] = [*joined[padded], *joined.pop((folder, stem, width))]
    return joined


def check_samples(folder: Path, samples: dict[str, int]) -> None:
    """UserError when a shard holds another number of samples than ``sizes.json`` beside it says."""
    for name, number in _sizes(folder).items():
        if name in samples and samples[name] != number:
            raise UserError(
                f"{folder / name} holds {count(samples[name], 'sample')}, sizes.json says {number:,}",
                "copy or download it again",
            )


def _check_lists(folder: Path, names: list[str]) -> None:
    """``nshards.txt`` holds the number of shards, ``sizes.json`` the samples of each by name."""
    with contextlib.suppress(OSError, ValueError):
        expected = int((folder / "nshards.txt").read_text("utf-8"))
        if len(names) < expected:
            raise UserError(f"{folder} has {count(names, 'shard')}, nshards.txt says {expected:,}", _REMEDY)
    absent = sorted(set(_sizes(folder)) - set(names))
    if absent:
        raise UserError(
            f"{folder} lacks {count(absent, 'shard')} that its sizes.json names ({first(absent)})", _REMEDY
        )


def _sizes(folder: Path) -> dict[str, int]:
    try:
        content = json.loads((folder / "sizes.json").read_bytes())
    except (OSError, ValueError):
        return {}
    entries = content.items() if isinstance(content, dict) else ()
    return {name: size for name, size in entries if name.endswith(".tar") and isinstance(size, int)}
