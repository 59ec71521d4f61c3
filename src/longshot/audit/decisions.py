"""What a person decided about single images: kept or dropped, in a small file beside the dataset.

``birds.review.json`` lies beside ``birds/`` or ``birds.zip``. Every decision names an image by its key and by the
digest of its bytes: one about a picture that was exchanged since then no longer holds. A view has the decisions of the
dataset that it is a view of. Datasets without a path of their own, and those in a folder that nobody may write into,
have theirs in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import (
    Bools,
    LooseRecord,
    UserError,
    cache_dir,
    count,
    file_lock,
    first,
    hash_text,
    is_writable,
    read_json,
    write_json,
)
from longshot.data import VIEW_ENDING, Dataset, image_digests, source_path

if TYPE_CHECKING:
    from longshot.models import Suspects

REVIEW_ENDING = ".review.json"
Verdict: TypeAlias = Literal["keep", "drop"]
VERDICTS: tuple[Verdict, ...] = ("keep", "drop")


class Decision(LooseRecord):
    """One decision: of several about an image the last holds. Those made together have one ``turn``."""

    key: str
    digest: str  # SHA-256 of the image's bytes, in hex
    verdict: Verdict
    turn: int
    at: str  # UTC


class ReviewFile(LooseRecord):
    """What lies beside a dataset: all decisions in the order in which they were made."""

    longshot: Literal["review"] = "review"
    format: Literal[1] = 1
    dataset: str = ""
    decisions: tuple[Decision, ...] = ()


def review_file(dataset: Dataset) -> Path:
    """Return where the decisions about a dataset are stored, whether or not there are any yet."""
    source = dataset.source
    while (path := source_path(source)) is not None and path.name.endswith(VIEW_ENDING) and path.is_file():
        from longshot.data import ViewFile  # a format, which needs what reads all formats

        source = read_json(ViewFile, path, "The view").source
    if path is not None:
        beside = path.with_name(f"{path.name}{REVIEW_ENDING}")
        if beside.is_file() or (path.exists() and is_writable(beside.parent)):
            return beside
    return cache_dir("reviews") / f"{hash_text(source)[:32]}{REVIEW_ENDING}"


def read_decisions(dataset: Dataset) -> dict[str, Verdict]:
    """Return key → verdict of the images of a dataset that a person decided about.

    Parameters
    ----------
    dataset : Dataset
        Images that it lacks, and those with other bytes than they were decided about, are passed over. Where a dataset
        is used by names only, names decide.

    Examples
    --------
    >>> import longshot
    >>> dataset = longshot.open_dataset("toybox")  # doctest: +SKIP
    >>> key = dataset.keys[0].as_py()  # doctest: +SKIP
    >>> decide_images(dataset, [key], "drop") == [key], read_decisions(dataset)[key]  # doctest: +SKIP
    (True, 'drop')
    >>> undo_decisions(dataset) == [key], read_decisions(dataset)  # doctest: +SKIP
    (True, {})
    """
    latest = {decision.key: decision for decision in _read(review_file(dataset)).decisions}
    if not latest:
        return {}
    rows = pc.index_in(pa.array(latest, pa.string()), value_set=dataset.keys)
    present = [
        (int(row), decision)
        for row, decision in zip(rows.to_pylist(), latest.values(), strict=True)
        if row is not None
    ]
    if dataset.identity == "names" or not present:
        return {decision.key: decision.verdict for _, decision in present}
    digests = image_digests(dataset, np.array([row for row, _ in present]), skip_bad=True)
    return {
        decision.key: decision.verdict
        for (_, decision), digest in zip(present, digests, strict=True)
        if bytes(digest).hex() == decision.digest
    }


def decided_rows(dataset: Dataset) -> tuple[Bools, Bools]:
    """Mark the images of a dataset that a person keeps, and those that a person drops, both [N]."""
    decisions = read_decisions(dataset)
    keys = [[key for key in decisions if decisions[key] == verdict] for verdict in VERDICTS]
    keeps, drops = (
        pc.is_in(dataset.keys, value_set=pa.array(part, pa.string())).to_numpy(zero_copy_only=False)
        for part in keys
    )
    return keeps, drops


def reviewed(suspects: Suspects, dataset: Dataset) -> Suspects:
    """Return suspects without the images that a person keeps."""
    keeps = decided_rows(dataset)[0]
    if not keeps.any():
        return suspects
    doubted = ~keeps[suspects.mislabelled]
    return replace(
        suspects,
        mislabelled=suspects.mislabelled[doubted],
        rival=suspects.rival[doubted],
        odds=suspects.odds[doubted],
        copies=suspects.copies[~keeps[suspects.copies]],
    )


def decide_images(dataset: Dataset, keys: Sequence[str], verdict: Verdict) -> list[str]:
    """Store one decision about some images, over any earlier one; return their keys.

    Parameters
    ----------
    dataset : Dataset
        Whose images.
    keys : sequence of str
        Names of images; one that the dataset lacks is an error.
    verdict : {"keep", "drop"}
        "keep": the image is right, whoever suspects it. "drop": no task has it.
    """
    if verdict not in VERDICTS:
        raise UserError(f"'{verdict}' is no decision", f"choose {' or '.join(VERDICTS)}")
    keys = list(dict.fromkeys(keys))
    rows = dataset.find_rows(pa.array(keys, pa.string()))
    digests = image_digests(dataset, rows)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with _changing(dataset) as decisions:
        turn = 1 + max((decision.turn for decision in decisions), default=0)
        for key, digest in zip(keys, digests, strict=True):
            decisions.append(
                Decision(key=key, digest=bytes(digest).hex(), verdict=verdict, turn=turn, at=now)
            )
    return keys


def undo_decisions(dataset: Dataset, keys: Iterable[str] = ()) -> list[str]:
    """Take decisions back; return the images concerned.

    Parameters
    ----------
    dataset : Dataset
        Whose images.
    keys : iterable of str
        Images to have no decision any more. By default those of the last call of ``decide_images``, for which the
        decision before it holds again.
    """
    named = set(keys)
    with _changing(dataset) as decisions:
        last = max((decision.turn for decision in decisions), default=0)
        undone = [each for each in decisions if (each.key in named if named else each.turn == last)]
        missing = sorted(named - {each.key for each in undone})
        if missing or not undone:
            subject = f"{count(missing, 'image')} ({first(missing)})" if missing else "any image"
            raise UserError(
                f"No decision about {subject} of '{dataset.name}' is stored",
                f"{{audit.review_dataset({dataset.source})}} lists those that are",
            )
        decisions[:] = [each for each in decisions if each not in undone]
    return list(dict.fromkeys(each.key for each in undone))


@contextmanager
def _changing(dataset: Dataset) -> Iterator[list[Decision]]:
    """Yield the stored decisions to be changed; they are written when the block ends well. One writer at a time."""
    file = review_file(dataset)
    with file_lock(file.with_name(f".{file.name}.lock")):
        stored = _read(file)
        decisions = list(stored.decisions)
        yield decisions
        changed = stored.model_copy(update={"dataset": dataset.name, "decisions": tuple(decisions)})
        write_json(file, changed.model_dump())


def _read(file: Path) -> ReviewFile:
    return read_json(ReviewFile, file, "The file of decisions") if file.is_file() else ReviewFile()
