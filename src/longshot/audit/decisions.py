"""What a person decided about single images: kept or dropped, in a small file beside the dataset; and a verb for it.

``birds.review.json`` lies beside ``birds/`` or ``birds.zip``. Every decision names an image by its key and by the
digest of its bytes: one about a picture that was exchanged since then no longer holds. A view has the decisions of the
dataset that it is a view of. Datasets without a path of their own, and those in a folder that nobody may write into,
have theirs in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

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
    with_engine,
    write_json,
)
from longshot.data import VIEW_ENDING, Dataset, DatasetLike, as_dataset, image_digests, source_path

if TYPE_CHECKING:
    from longshot.models import BackboneLike, Suspects

REVIEW_ENDING = ".review.json"
ImageVerdict: TypeAlias = Literal["keep", "drop"]
VERDICTS: tuple[ImageVerdict, ...] = ("keep", "drop")


class Decision(LooseRecord):
    """One decision: of several about an image the last holds. Those made together have one ``turn``."""

    key: str
    digest: str  # SHA-256 of the image's bytes, in hex
    verdict: ImageVerdict
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


def read_decisions(dataset: Dataset) -> dict[str, ImageVerdict]:
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


def decide_images(dataset: Dataset, keys: Sequence[str], verdict: ImageVerdict) -> list[str]:
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


@dataclass(frozen=True, eq=False)
class Review:
    """What is doubtful in a dataset, and what was decided.

    Attributes
    ----------
    rows : list of dict
        Doubtful images, those without a decision first: key, class, reason (label, copy or both; empty where nobody
        doubts), looks_like, odds, decision (keep, drop or None).
    changed : list of str
        Images that this call decided about.
    file : str
        Where decisions are stored.
    """

    rows: list[dict[str, Any]]
    changed: list[str]
    file: str

    def counts(self) -> dict[str, int]:
        """Count doubtful labels, copies, and images kept, dropped and still open."""
        reasons, verdicts = ([row[name] for row in self.rows] for name in ("reason", "decision"))
        numbers = {kind: sum(kind in reason for reason in reasons) for kind in ("label", "copy")}
        return numbers | {
            "keep": verdicts.count("keep"),
            "drop": verdicts.count("drop"),
            "open": verdicts.count(None),
        }


@with_engine
def review_dataset(
    dataset: DatasetLike,
    *,
    backbone: BackboneLike | Sequence[BackboneLike] | None = None,
    near_copies: bool = True,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    undo: bool = False,
    device: str = "auto",
    engine: str | None = None,
) -> Review:
    """List doubtful labels and copies of a dataset with what was decided about them; or decide, or take that back.

    Decisions lie beside the dataset, in NAME.review.json. ``sample`` draws no image that was dropped, and nobody
    suspects one that was kept. A decision holds for the image's bytes: one about a picture that changed is void.

    Parameters
    ----------
    dataset : Dataset, str or Path
        What ``open_dataset`` opens.
    backbone : str, or several
        Whose features judge the labels; repeat for several, which judge together. Default: the first that is installed.
    near_copies : bool
        Look for near copies too, which reads every image, or only for files of equal bytes.
    keep : KEY, list of str
        Store that this image is right; repeat for several.
    drop : KEY, list of str
        Store that this image shall not be drawn; repeat for several.
    undo : bool
        Take the last decision back.
    device, engine : optional
        As in ``embed``.

    Returns
    -------
    Review
        ``rows``, ``counts()``, ``changed``, ``file``. A call that decides lists what was decided alone.

    Examples
    --------
    >>> review = review_dataset("toybox", backbone="pixels", near_copies=False)
    >>> review.counts()["drop"]
    0
    """
    from longshot.audit.find import find_suspects

    data = as_dataset(dataset)
    file = str(review_file(data))
    if undo and (keep or drop):
        raise UserError(
            "One call takes decisions back or makes them, and both were asked for", "do one after the other"
        )
    if undo or keep or drop:
        changed = undo_decisions(data) if undo else []
        pairs: tuple[tuple[ImageVerdict, Sequence[str]], ...] = (("keep", keep), ("drop", drop))
        for verdict, keys in pairs:
            changed += decide_images(data, keys, verdict) if keys else []
        return Review(_rows(data, []), changed, file)
    suspects = find_suspects(data, backbone=backbone, near_copies=near_copies, device=device, engine=engine)
    return Review(_rows(data, suspects.table().to_pylist()), [], file)


def _rows(dataset: Dataset, doubtful: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join doubtful images with decisions; those that were decided about without a doubt stand last."""
    decisions = read_decisions(dataset)
    doubted = {row["key"] for row in doubtful}
    keys = dataset.keys.to_pylist() if decisions.keys() - doubted else []
    more = [row for row, key in enumerate(keys) if key in decisions and key not in doubted]
    empty = {"reason": "", "looks_like": None, "odds": None}
    listed: dict[str, dict[str, Any]] = {}
    for row in doubtful:  # one that is doubted for its label and as a copy is one image
        reasons = [listed[row["key"]]["reason"]] if row["key"] in listed else []
        listed[row["key"]] = {
            **row,
            **listed.get(row["key"], {}),
            "reason": ", ".join([*reasons, row["reason"]]),
        }
    for number in more:
        listed[keys[number]] = {
            "key": keys[number],
            "class": dataset.class_ids[dataset.labels[number]],
            **empty,
        }
    rows = [{**row, "decision": decisions.get(row["key"])} for row in listed.values()]
    return sorted(rows, key=lambda row: row["decision"] is not None)
