"""``choose``: which photos should be the references of their classes, certified on photos that took no part.

Networks choose together: photos whose class means tell the other photos' classes best. What that is worth is
cross-fitted: chosen on three quarters of each class, measured on the last, four times over, by a network that did not
choose, against random references of the same numbers. The last choice stands, so a quarter of each class took no part
in it: on that, ``fit`` and ``check`` measure a model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import longshot
from longshot.audit import find_copies
from longshot.base import (
    PAGE,
    Bools,
    Floats,
    Ints,
    UserError,
    claim_output,
    count,
    note,
    progress,
    with_engine,
)
from longshot.deploy.choice import REFERENCES_FILE, Certified, Choice, ClassChoice
from longshot.deploy.choosing_search import Search, Vectors, groups_of, share_photos, units_of
from longshot.deploy.fitting import default_network
from longshot.models import default_networks, suspects_of
from longshot.statistics import mean_interval

if TYPE_CHECKING:
    from longshot import Dataset

FOLDS = 4
_DRAWS = 1_000
_ANSWERS = 2_000_000_000  # photos × classes × draws that random references may take in all


@with_engine
def choose(
    dataset: Dataset | str | Path,
    *,
    shot: int = 5,
    photos: int | None = None,
    backbones: Any = None,
    judge: str | None = None,
    draws: int = _DRAWS,
    seed: int = 0,
    out: str | Path | None = None,
    html: str | Path | None = None,
    force: bool = False,
    device: str = "auto",
    engine: str | None = None,
) -> Choice:
    """Choose which photos should be the references of their classes, and measure what that is worth.

    Photos that are copies of others, and photos whose label looks wrong, are not chosen. The measured number is for
    choosing in this way: it is cross-fitted, each part of the photos asked about references that were chosen
    without it. The last part stays apart from the choice, for ``fit`` and ``check`` to measure a model on.

    Parameters
    ----------
    dataset : Dataset, str or Path
        What ``open_dataset`` opens; images that cannot be read are left out.
    shot : int, at least 1
        References per class.
    photos : int, at least 2, optional
        References of all classes together: hard classes get more of them. In position of ``shot``.
    backbones : str or list of those, optional
        Network that chooses; may be repeated. Default: every EfficientNet-Lite but the judge.
    judge : BACKBONE, str, optional
        Network that certifies, such as the one that you will ship. Default: efficientnet-lite0 where it is installed.
    draws : int, at least 2
        Random references to compare with.
    seed : int, at least 0
        Random seed.
    out : file or URL, optional
        Write the references, for ``fit``: FILE.json.
    html : file or URL, optional
        Write a page with the chosen photos of every class, and what is missing.
    force : bool
        Replace what is at ``out`` and ``html``, even if Longshot did not write it.
    device, engine : optional
        As in ``embed``.

    Returns
    -------
    Choice
        Prints as one screen; ``rows``, ``certified``, ``classes``, ``save``, ``save_page``.

    Examples
    --------
    >>> chosen = choose("toybox", shot=1, backbones="pixels", judge="pixels", draws=2)
    >>> len(chosen.rows) == len(longshot.open_dataset("toybox").class_ids)
    True
    """
    for name, path, kind in (("out", out, REFERENCES_FILE), ("html", html, PAGE)):
        if path is not None:
            claim_output(path, kind, force=force, name=name)
    data = dataset if isinstance(dataset, longshot.Dataset) else longshot.open_dataset(dataset, skip_bad=True)
    labels, classes = data.labels, len(data.class_ids)
    if classes < 2:
        raise UserError(
            f"'{data.name}' has 1 class, and 2 are needed",
            "put the photos of each class into a folder of its own",
        )
    if photos is not None and photos < classes:
        raise UserError(
            f"{{photos:{photos}}} are fewer than the {classes:,} classes of '{data.name}', and each needs one",
            f"give {{photos:{2 * classes}}} or more",
        )
    certifier = judge or default_network()
    choosers = _choosers(backbones, certifier)
    features = {
        name: longshot.embed(data, name, device=device) for name in dict.fromkeys([certifier, *choosers])
    }
    looks = {name: np.asarray(each.array, np.float32) for name, each in features.items()}
    chosen_by = [looks[name] for name in choosers]
    _, copies = find_copies(data)
    group = np.arange(len(data)) if copies is None else copies.group
    suspected = np.zeros(len(data), bool)
    suspected[suspects_of(*(features[name] for name in choosers)).mislabelled] = True
    later = group != np.arange(len(data))
    usable = _usable(~suspected & ~later, labels, np.ones(len(data), bool))
    shots = np.full(classes, shot) if photos is None else share_photos(chosen_by, labels, usable, photos)
    part, outcomes = _deal(group, labels, seed), {name: _Outcomes(labels) for name in looks}
    if part.max() < 0:
        raise UserError(
            f"No class of '{data.name}' has two photos that differ, and references are measured on others",
            "add photos",
        )
    with progress("choose", total=int(part.max()) + 1, unit="parts") as bar:
        for number in range(int(part.max()) + 1):
            queries, pool = part == number, part != number
            clean = _usable(usable & pool, labels, pool)
            numbers = np.minimum(shots, np.bincount(labels[clean], minlength=classes))
            rows = Search(chosen_by, labels, clean, pool, seed).choose(numbers)
            for name, array in looks.items():
                outcomes[name].ask(units_of(array, pool), rows, pool, queries, draws, seed + number)
            bar.advance()
    choice = Choice(
        data,
        rows,
        np.flatnonzero(pool),
        [each.certified(name, name in choosers) for name, each in outcomes.items()],
        _classes(data, rows, outcomes[certifier], units_of(looks[certifier]), seed),
        _left_out(suspected, later, numbers, shot if photos is None else 1, photos or 0),
    )
    if out is not None:
        choice.save(out, force=force)
    if html is not None:
        choice.save_page(html, force=force)
    return choice


def _choosers(backbones: Any, certifier: str) -> list[str]:
    """Return the networks that choose; without any, those that are installed beside the certifying one."""
    if backbones is not None and backbones != () and backbones != []:  # a command gives none as ()
        return [backbones] if isinstance(backbones, str) else list(backbones)
    names = [name for name in default_networks() if name not in (certifier, "pixels")]
    if not names:
        note(
            f"'{certifier}' chooses and certifies: no other network is installed, so the gain is that of its own choice"
        )
    return names or [certifier]


def _usable(clean: Bools, labels: NDArray[Any], pool: Bools) -> Bools:
    """Return which photos of the pool may be references: the clean ones, or all of a class that has no clean one."""
    empty = np.bincount(labels[clean], minlength=int(labels.max()) + 1) == 0
    return np.asarray((clean | empty[labels]) & pool)


def _deal(group: Ints, labels: NDArray[Any], seed: int) -> Ints:
    """Deal the photos of each class to parts, copies together; groups that are all of a class stay out of them: −1."""
    part, order = np.full(len(labels), -1), np.random.default_rng(seed).permutation(len(labels))
    for number in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels == number)
        firsts = np.unique(group[members])
        ranks = np.argsort(np.argsort(order[firsts])) % FOLDS
        part[members] = ranks[np.searchsorted(firsts, group[members])]
    part = part[group]  # copies in two classes go where the first of them does
    for number in range(int(labels.max()) + 1):
        members = labels == number
        if (
            len(np.unique(part[members])) == 1
        ):  # without them nothing of the class would be left to choose from
            part[np.isin(group, group[members])] = -1
    return part


@dataclass(eq=False)
class _Outcomes:
    """Answers of one network, part by part: about Q photos in all, of the classes ``labels`` [N]."""

    labels: NDArray[Any]
    rows: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    answers: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # with chosen references
    random: Floats = field(default_factory=lambda: np.empty(0))  # share of the draws that are right
    parts: list[tuple[int, float, Floats]] = field(
        default_factory=list
    )  # photos, accuracy, and that of each draw

    @property
    def right(self) -> Bools:
        """Tell which photos chosen references answer rightly, [Q]."""
        return np.asarray(self.answers == self.labels[self.rows])

    def ask(self, units: Vectors, chosen: Ints, pool: Bools, queries: Bools, draws: int, seed: int) -> None:
        """Ask about a part of the photos, with chosen references and with random ones from the same pool."""
        own, rows = np.flatnonzero(queries), np.flatnonzero(pool)
        numbers, sizes = np.bincount(self.labels[chosen]), np.bincount(self.labels[rows])
        starts, firsts = np.cumsum(numbers) - numbers, np.cumsum(sizes) - sizes
        generator, positions = np.random.default_rng(seed), np.searchsorted(rows, chosen)
        pooled = units[rows]
        between = pooled @ units[own].T  # [P, Q]

        def answers(picked: Ints) -> Ints:  # positions in the pool, class by class
            lengths = np.linalg.norm(np.add.reduceat(pooled[picked], starts), axis=1)
            scores = np.add.reduceat(between[picked], starts) / np.maximum(lengths, 1e-6)[:, None]
            return np.asarray(scores.argmax(0), np.int64)

        most = max(2, min(draws, _ANSWERS // max(1, len(own) * len(chosen))))
        best, hits, shares = answers(positions), np.zeros(len(own)), np.empty(most)
        for draw in range(most):
            picks = [
                first + generator.choice(size, number, replace=False)
                for first, size, number in zip(firsts, sizes, numbers, strict=True)
            ]
            right = answers(np.concatenate(picks)) == self.labels[own]
            hits += right
            shares[draw] = right.mean()
        self.parts.append((len(own), float((best == self.labels[own]).mean()), shares))
        self.rows, self.answers = np.append(self.rows, own), np.append(self.answers, best)
        self.random = np.append(self.random, hits / most)

    def certified(self, name: str, chose: bool) -> Certified:
        """Return what the choice is worth, with intervals for other photos of these classes."""
        right, sizes = self.right.astype(float), [size for size, _, _ in self.parts]
        return Certified(
            name,
            chose,
            mean_interval(right),
            mean_interval(self.random),
            mean_interval(right - self.random),
            float(np.average([shares.max() for _, _, shares in self.parts], weights=sizes)),
            float(np.average([(shares < own).mean() for _, own, shares in self.parts], weights=sizes)),
            min(len(shares) for _, _, shares in self.parts),
        )


def _classes(data: Dataset, rows: Ints, outcomes: _Outcomes, units: Vectors, seed: int) -> list[ClassChoice]:
    """Return a row per class, with the group of its photos that its references serve worst."""
    labels, ids, classes = data.labels, data.class_ids, []
    for number, class_id in enumerate(ids):
        own = np.flatnonzero(labels[outcomes.rows] == number)
        queries, right = outcomes.rows[own], outcomes.right[own]
        wrong = np.bincount(outcomes.answers[own][~right], minlength=len(ids))
        missing, unserved = "", queries[:0]
        if len(own) >= 6 and not right.all():
            missing, unserved = _missing(data, queries, right, groups_of(units[queries], 3, seed))
        chosen, random = (
            float(values.mean()) if len(own) else float("nan") for values in (right, outcomes.random[own])
        )
        references, apart = tuple(rows[labels[rows] == number].tolist()), tuple(unserved.tolist())
        taken_for = ids[int(wrong.argmax())] if wrong.any() else ""
        row = ClassChoice(class_id, references, len(own), chosen, random, taken_for, missing, apart)
        classes.append(row)
    return sorted(classes, key=lambda each: (np.nan_to_num(each.chosen, nan=2.0), each.class_id))


def _missing(data: Dataset, rows: Ints, right: Bools, looks: Ints) -> tuple[str, Ints]:
    """Say of which photos a class has too few: a value of an attribute where there are any, else a group of looks."""
    table = {} if data.attributes is None else data.attributes.take(rows).to_pydict()
    candidates = []
    for name, values in table.items():
        column = np.array(values, str)
        for value in np.unique(column) if len(np.unique(column)) <= 10 else ():
            candidates.append((f"photos with {name} {value}", column == value))
    candidates = candidates or [("more photos of one look", looks == number) for number in np.unique(looks)]
    scored = [(_shortfall(right, members), words, members) for words, members in candidates]
    short, words, members = max(scored, key=lambda each: each[0])
    wrong = members & ~right
    if short <= 0.15 or wrong.sum() < 2:
        return "", rows[:0]
    return f"needs {words}: {wrong.sum()} of {members.sum()} are mistaken", rows[wrong]


def _shortfall(right: Bools, members: Bools) -> float:
    """Return how far a group's accuracy lies below that of the rest; 0 where either has under three photos."""
    if members.sum() < 3 or (~members).sum() < 3:
        return 0.0
    return float(right[~members].mean() - right[members].mean())


def _left_out(suspected: Bools, later: Bools, numbers: Ints, shot: int, photos: int) -> tuple[str, ...]:
    """Say what could not be a reference."""
    lines = []
    if suspected.any():
        lines.append(f"not chosen: {count(int(suspected.sum()), 'photo')} whose label looks wrong")
    if later.any():
        lines.append(f"not chosen: {count(int(later.sum()), 'copy', 'copies')} of other photos")
    if short := int((numbers < shot).sum()):
        verb = "has" if short == 1 else "have"
        reason = f"fewer than {shot} photos beside those kept apart: all of these are references"
        lines.append(f"{count(short, 'class', 'classes')} {verb} {reason}")
    if numbers.sum() < photos:
        lines.append(
            f"{numbers.sum():,} in place of {photos:,}: half of its photos is the most that a class gives"
        )
    return tuple(lines)
