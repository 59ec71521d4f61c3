"""The verb that lists what is doubtful in a dataset beside what a person decided about it, and stores decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longshot.audit.decisions import Verdict, decide_images, read_decisions, review_file, undo_decisions
from longshot.base import UserError, with_engine
from longshot.data import Dataset, DatasetLike, as_dataset

if TYPE_CHECKING:
    from longshot.models import BackboneLike


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
        pairs: tuple[tuple[Verdict, Sequence[str]], ...] = (("keep", keep), ("drop", drop))
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
