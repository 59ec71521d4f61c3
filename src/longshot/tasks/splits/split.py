"""The Split: which classes are for training, validation and test, how that was decided, and how many each part has."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from longshot.base import (
    Floats,
    Ints,
    LooseRecord,
    OutputKind,
    UserError,
    claim_output,
    count,
    deliver_json,
    first,
    has_json,
    hash_json,
    note,
    read_record,
)
from longshot.data import (
    SPLITS,
    Dataset,
    canonical_split,
    check_splits,
    compare_content,
    pack_digests,
    resolve_classes,
    unpack_digests,
)

FORMAT = 1
RATIOS = (0.6, 0.2, 0.2)
WAY = 5  # classes of the tasks that tell how hard a split is
SHOT = 5  # and their support images per class
Parts: TypeAlias = tuple[Ints, Ints, Ints]  # class positions: train, validation, test
KIND = OutputKind("split", {".json": has_json(format=..., made=..., fingerprint=..., train=...)})


class SplitFile(LooseRecord):
    """split.json: what :meth:`Split.save` writes, or a plain list of classes by hand."""

    format: Literal[1] = 1
    name: str | None = None
    fingerprint: str | None = None
    train: tuple[str | int, ...] = ()
    validation: tuple[str | int, ...] = ()
    test: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Split:
    """Class ids of the three parts, the fingerprint of the dataset they belong to, and the story of the split.

    ``fingerprint`` is empty for a list that a person wrote. ``made`` tells the mode, the divergence asked and
    achieved, the objective, the gap, backbone, features hash, seed, versions: whatever the maker knew.

    Parameters
    ----------
    name : str
        What the split is called.
    fingerprint : str
        Of the dataset.
    made : dict
        The story of the split.
    train, validation, test : tuple of str
        Class ids.

    Examples
    --------
    >>> split = longshot.make_split("toybox", random=True)
    >>> split.save("random.json")
    >>> Split.load("random.json").sizes == split.sizes
    True
    >>> toybox = longshot.open_dataset("toybox")
    >>> list(split.resolve(toybox)), [len(part) for part in split.positions(toybox).values()]
    (['train', 'validation', 'test'], [58, 19, 19])
    >>> len(split.classes(toybox, "test"))
    19
    >>> len(split.apply(toybox).splits["test"])
    19
    """

    name: str
    fingerprint: str
    made: dict[str, Any] = field(default_factory=dict)
    train: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part in SPLITS:
            members = tuple(getattr(self, part))
            object.__setattr__(self, part, members)
            if len(set(members)) != len(members):
                twice = sorted({c for c in members if members.count(c) > 1})
                raise UserError(
                    f"Split '{self.name}' names class '{twice[0]}' twice in {part}; once is enough."
                )
        check_splits(self.parts, f"Split '{self.name}'")

    @property
    def content(self) -> str:
        """Return the digest over the bytes of the dataset's images; empty where the split vouches for names only."""
        return str(self.made.get("content", ""))

    @property
    def digests(self) -> str:
        """Return the short digests of the dataset's images in its order, by ``pack_digests``; empty for names only."""
        return str(self.made.get("digests", ""))

    @property
    def story(self) -> dict[str, Any]:
        """Return ``made`` for people: without the digests of single images."""
        return {name: fact for name, fact in self.made.items() if name != "digests"}

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """Return part → class ids, in the order train, validation, test."""
        return {part: getattr(self, part) for part in SPLITS}

    @property
    def sizes(self) -> dict[str, int]:
        """Return part → number of classes."""
        return {part: len(members) for part, members in self.parts.items()}

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write split.json, whole or not at all.

        Parameters
        ----------
        path : path
            File to write, ``.json``.
        force : bool
            Replace what is there, even if it is no split that Longshot wrote.
        """
        claim_output(path, KIND, force=force)
        content = {"format": FORMAT, "name": self.name, "fingerprint": self.fingerprint, "made": self.made}
        deliver_json(path, {**content, **{part: list(members) for part, members in self.parts.items()}})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Split:
        """Read what ``save`` wrote, or a plain list by hand: train, validation (or val) and test suffice.

        Parameters
        ----------
        path : path
            What ``save`` wrote, or a list by hand.

        Returns
        -------
        Split
        """
        path = Path(path)
        content = _read(path)
        facts = read_record(SplitFile, _with_parts(content, path), f"The split file {path}")
        parts = {part: tuple(str(class_id) for class_id in getattr(facts, part)) for part in SPLITS}
        if not any(parts.values()):
            raise UserError(
                f"{path} names no class under train, validation or test (found: {', '.join(content) or 'nothing'})."
            )
        made = content.get("made", {})  # as it is: its lists stay lists
        made = made if isinstance(made, dict) else {"how": made}
        return cls(facts.name or path.stem, facts.fingerprint or "", made, **parts)

    def resolve(self, dataset: Dataset) -> dict[str, tuple[str, ...]]:
        """Return part → class ids of ``dataset``, after checking that the split belongs to it; say what differs.

        Another fingerprint over the same class ids (a copy with more or fewer images) is told in a note, and so are
        images with other bytes: a split is about classes. Other classes are an error.

        Parameters
        ----------
        dataset : Dataset
            The dataset whose classes the split names.
        """
        named = [c for members in self.parts.values() for c in members]
        if not self.fingerprint:
            where = f"Split '{self.name}'"
            parts = {p: tuple(resolve_classes(m, dataset.class_ids, where)) for p, m in self.parts.items()}
            return check_splits(parts, where)
        lacking = sorted(set(named) - set(dataset.class_ids))
        other = self.fingerprint != dataset.fingerprint
        extra = sorted(set(dataset.class_ids) - set(named)) if other else []
        if lacking or extra:
            missing = (
                f"lacks {count(lacking, 'class', 'classes')} of it ({first(lacking)})" if lacking else ""
            )
            unknown = f"has {len(extra):,} that the split does not name ({first(extra)})" if extra else ""
            raise UserError(
                f"Split '{self.name}' names {count(named, 'class', 'classes')} of another dataset: "
                f"'{dataset.name}' with {len(dataset.class_ids):,} "
                f"{' and '.join(filter(None, (missing, unknown)))}",
                "make a split of this dataset with {make_split(DATASET)}",
            )
        if other:
            note(
                f"split '{self.name}' was made on other images (fingerprint {self.fingerprint[:12]}, here "
                f"{dataset.fingerprint[:12]}); the {len(named):,} class ids are the same."
            )
        elif self.digests and dataset.identity == "content":
            self._note_changes(dataset)
        return check_splits(self.parts, f"Split '{self.name}'")

    def _note_changes(self, dataset: Dataset) -> None:
        """Say which images have other bytes than when the split was made."""
        from longshot.models import content_of

        now = content_of(dataset)
        if now.digest == self.content:
            return
        assert now.short is not None
        try:
            recorded = unpack_digests(self.digests)
            if len(recorded) != len(dataset):
                raise ValueError(f"{len(recorded):,} digests of {len(dataset):,} images")
        except ValueError as error:
            raise UserError(
                f"The digests of images in split '{self.name}' are damaged ({error})", "make it again"
            ) from error
        changes = compare_content(dataset.keys, recorded, dataset.keys, now.short)
        note(
            f"split '{self.name}' was made from other pictures: {changes} in '{dataset.name}'; its "
            f"{count([c for members in self.parts.values() for c in members], 'class id')} are the same."
        )

    def positions(self, dataset: Dataset) -> dict[str, Ints]:
        """Return part → positions of its classes in ``dataset.class_ids``, ascending; empty for a part the split lacks.

        Parameters
        ----------
        dataset : Dataset
            The dataset whose classes the split names.
        """
        parts = self.resolve(dataset)
        position = {class_id: number for number, class_id in enumerate(dataset.class_ids)}
        return {
            part: np.array(sorted(position[class_id] for class_id in parts.get(part, ())), np.int64)
            for part in SPLITS
        }

    def classes(self, dataset: Dataset, part: str) -> Ints:
        """Return the positions of the classes of ``part`` in ``dataset.class_ids``, ascending.

        Parameters
        ----------
        dataset : Dataset
            The dataset whose classes the split names.
        part : str
            train, validation or test.
        """
        return self.apply(dataset).split_classes(part)

    def apply(self, dataset: Dataset) -> Dataset:
        """Return the same dataset with this split in place of the one it came with.

        Parameters
        ----------
        dataset : Dataset
            The dataset whose classes the split names.
        """
        parts = self.resolve(dataset)
        identity = hash_json({part: sorted(ids) for part, ids in parts.items()})[:12]
        return dataclasses.replace(dataset, splits=parts, splits_from=f"{self.name} {identity}")


SplitLike: TypeAlias = Split | str | Path  # what ``open_split`` takes


def with_content(split: Split, dataset: Dataset) -> Split:
    """Return the split with what it vouches for: digests of the dataset's images, or that only names are."""
    from longshot.models import content_of

    content = content_of(dataset)
    digest, digests = ("", "") if content.short is None else (content.digest, pack_digests(content.short))
    facts = {"identity": content.identity, "content": digest, "digests": digests}
    return dataclasses.replace(split, made={**split.made, **facts})


def from_labels(name: str, dataset: Dataset, parts: Sequence[Ints], made: dict[str, Any]) -> Split:
    """Make a split from class positions of train, validation and test; ids in the dataset's order."""
    train, validation, test = (tuple(dataset.class_ids[i] for i in sorted(part.tolist())) for part in parts)
    return Split(name, dataset.fingerprint, made, train, validation, test)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise no_split_file(path) from None
    except (ValueError, OSError) as error:
        raise UserError(f"The split file {path} cannot be read as JSON ({error})", "make it again") from error
    if not isinstance(content, dict):
        raise UserError(
            f"{path} must be a JSON object with lists of classes under train, validation and test."
        )
    return content


def no_split_file(path: str | Path) -> UserError:
    """Build the error for a file that is not there."""
    return UserError(f"There is no split file {path}", f"make one with {{make_split(DATASET, out={path})}}")


def _with_parts(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the content with its parts under their usual names: ``val`` is validation."""
    renamed: dict[str, Any] = {}
    for entry, members in content.items():
        part = canonical_split(entry)
        if part in renamed:
            raise UserError(f"{path} has two lists for {part}", "keep one")
        renamed[part or entry] = members
    return renamed


def part_sizes(classes: int, ratios: Sequence[float] = RATIOS) -> tuple[int, int, int]:
    """Count the classes in (train, validation, test): validation and test get ⌊ratio · M⌋ each, train the others.

    Parameters
    ----------
    classes : int
        M.
    ratios : sequence of 3 floats
        From 0 on, summing to 1; only that of validation may be 0.

    Examples
    --------
    >>> part_sizes(62)
    (38, 12, 12)
    """
    if (
        len(ratios) != 3
        or not all(math.isfinite(r) and r >= 0 for r in ratios)
        or abs(sum(ratios) - 1) > 1e-6
    ):
        listed = ", ".join(f"{r:g}" for r in ratios)
        raise UserError(
            f"The ratios {listed} are not three numbers from 0 that sum to 1, such as 0.6,0.2,0.2."
        )
    if ratios[0] == 0 or ratios[2] == 0:
        raise UserError("Train and test need a ratio above 0 each; only validation may be 0.")
    # a product such as 0.29 × 100 lies a rounding error below the whole number that is meant
    validation, test = (math.floor(round(r * classes, 6)) for r in ratios[1:])
    train = classes - validation - test
    if train < 1 or test < 1 or (ratios[1] > 0 and validation < 1):
        needed = max(math.ceil(round(1 / max(r, 1e-9), 6)) for r in ratios if r > 0)
        raise UserError(
            f"{classes} {'class is' if classes == 1 else 'classes are'} too few for a split of "
            f"{ratios[0]:g}, {ratios[1]:g}, {ratios[2]:g}: at least {needed} are needed for one class in each part."
        )
    return train, validation, test


def assign(scores: Floats, sizes: tuple[int, int, int], seed: int = 0) -> Parts:
    """Assign the lowest scores alternately to test and validation until both are full; the others are train.

    Parameters
    ----------
    scores : array [M]
        One per class: log p_train − log p_test.
    sizes : (train, validation, test)
        Summing to M.
    seed : int
        Breaks ties at random, as in the paper: with equal scores the split is a random one.

    Examples
    --------
    >>> [part.tolist() for part in assign(np.array([0.9, 0.1, 0.5, 0.2]), (2, 1, 1))]
    [[0, 2], [3], [1]]
    """
    train, validation, test = sizes
    if train + validation + test != len(scores):
        raise ValueError(f"sizes {sizes} do not sum to the {len(scores)} scores")
    order = np.lexsort((np.random.default_rng(seed).permutation(len(scores)), scores))
    held, alternating = validation + test, 2 * min(validation, test)
    turns = np.arange(held)
    to_test = np.where(turns < alternating, turns % 2 == 0, test > validation)
    return np.sort(order[held:]), np.sort(order[:held][~to_test]), np.sort(order[:held][to_test])
