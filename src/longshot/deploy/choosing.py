"""``choose``: which photos should be the references of their classes, certified on photos that took no part.

Networks choose together: photos whose class means tell the other photos' classes best, one from each group of
looks. What
that is worth is cross-fitted: chosen on three quarters of each class, measured on the last, four times over, by a
network
that did not choose, against random references of the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import longshot
from longshot.audit import find_copies
from longshot.base import (
    Bools,
    Floats,
    Ints,
    UserError,
    claim_output,
    count,
    deliver_text,
    note,
    progress,
    with_engine,
)
from longshot.deploy.choosing_search import Looks, choose_rows, share_photos
from longshot.deploy.fitting import default_network
from longshot.models import default_networks, suspects_of
from longshot.statistics import Interval, mean_interval

if TYPE_CHECKING:
    from longshot import Dataset

FOLDS = 4
_DRAWS = 1_000
_ANSWERS = 2_000_000_000  # photos × classes × draws that random references may take in all


@dataclass(frozen=True)
class Certified:
    """What chosen references are worth to one network, on photos that took no part in choosing."""

    backbone: str
    chose: bool  # whether the network itself took part
    chosen: Interval
    random: Interval  # the mean over all draws, for the same photos
    gain: Interval  # chosen − random, photo by photo
    best: float  # the best draw of each part
    worse: float  # share of the draws that are worse than the choice
    draws: int


@dataclass(frozen=True)
class ClassChoice:
    """One class: its references, what they are worth, and which of its photos they do not serve."""

    class_id: str
    references: tuple[int, ...]  # rows of the dataset
    photos: int
    chosen: float  # accuracy of the certifying network
    random: float
    taken_for: str
    missing: str  # what would be needed, in words; empty where nothing stands out
    unserved: tuple[int, ...]  # rows of photos like those that are needed


@dataclass(frozen=True, eq=False)
class Choice:
    """Which photos should be the references, and what that is worth.

    Attributes
    ----------
    dataset : Dataset
        Whose photos.
    rows : array [S]
        The references, as rows of the dataset.
    certified : list of Certified
        A row per network, the one that did not choose first.
    classes : list of ClassChoice
        A row per class, the worst first.
    left_out : tuple of str
        What could not be a reference, in words.
    """

    dataset: Dataset
    rows: Ints
    certified: Sequence[Certified]
    classes: Sequence[ClassChoice]
    left_out: tuple[str, ...]

    def __repr__(self) -> str:
        from longshot.deploy.choice_page import screen

        return screen(self)

    def record(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        from longshot.deploy.choice_page import record

        return record(self)

    def save(self, out: str | Path, *, force: bool = False) -> None:
        """Write the references as JSON, for ``fit``.

        Parameters
        ----------
        out : file or URL
            ``refs.json``.
        force : bool
            Replace what is there, even if Longshot did not write it.
        """
        from longshot.deploy.choice_page import REFERENCES_FILE, references_json

        claim_output(out, REFERENCES_FILE, force=force)
        deliver_text(out, references_json(self))

    def save_page(self, out: str | Path, *, force: bool = False) -> None:
        """Write a page with the chosen photos of every class, and of what is missing.

        Parameters
        ----------
        out : file or URL
            ``choice.html``.
        force : bool
            Replace what is there, even if Longshot did not write it.
        """
        from longshot.base import PAGE
        from longshot.deploy.choice_page import render_choice

        claim_output(out, PAGE, force=force, name="html")
        deliver_text(out, render_choice(self))


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
    without it.

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
    from longshot.base import PAGE
    from longshot.deploy.choice_page import REFERENCES_FILE

    for name, path, kind in (("out", out, REFERENCES_FILE), ("html", html, PAGE)):
        if path is not None:
            claim_output(path, kind, force=force, name=name)
    data = dataset if isinstance(dataset, longshot.Dataset) else longshot.open_dataset(dataset, skip_bad=True)
    if len(data.class_ids) < 2:
        raise UserError(
            f"'{data.name}' has 1 class, and 2 are needed",
            "put the photos of each class into a folder of its own",
        )
    if photos is not None and photos < len(data.class_ids):
        raise UserError(
            f"{{photos:{photos}}} are fewer than the {len(data.class_ids):,} classes of '{data.name}', "
            f"and each needs one",
            f"give {{photos:{2 * len(data.class_ids)}}} or more",
        )
    certifier = judge or default_network()
    choosers = _choosers(backbones, certifier)
    features = {
        name: longshot.embed(data, name, device=device) for name in dict.fromkeys([certifier, *choosers])
    }
    _, copies = find_copies(data)
    group = np.arange(len(data)) if copies is None else copies.group
    suspected = np.zeros(len(data), bool)
    suspected[suspects_of(*(features[name] for name in choosers)).mislabelled] = True
    later = group != np.arange(len(data))
    usable = _usable(~suspected & ~later, data.labels)
    looks = {name: np.asarray(each.array, np.float32) for name, each in features.items()}
    part = _deal(group, data.labels, seed)
    shots = np.minimum(np.full(len(data.class_ids), shot), np.bincount(data.labels[usable]))
    if photos is not None:
        every = Looks([looks[name] for name in choosers], data.labels)
        shots = share_photos(every, usable, photos, seed)
    results: dict[str, list[_Part]] = {name: [] for name in features}
    with progress("choose", total=FOLDS + 1, unit="parts") as bar:
        for number in range(FOLDS):
            queries, pool = part == number, part != number
            clean = _usable(usable & pool, data.labels, pool)
            numbers = np.minimum(shots, np.bincount(data.labels[clean], minlength=len(shots)))
            every = Looks([looks[name] for name in choosers], data.labels)
            chosen = choose_rows(every, clean, pool, numbers, seed)
            for name, array in looks.items():
                results[name].append(
                    _compare(array, data.labels, chosen, pool, queries, numbers, draws, seed + number)
                )
            bar.advance()
        rows = choose_rows(
            Looks([looks[name] for name in choosers], data.labels),
            usable,
            np.ones(len(data), bool),
            shots,
            seed,
        )
        bar.advance()
    certified = [_certify(name, name in choosers, results[name]) for name in features]
    classes = _classes(data, rows, results[certifier], looks[certifier], seed)
    left_out = _left_out(suspected, later, shots, shot if photos is None else 1)
    choice = Choice(data, rows, certified, classes, left_out)
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


def _usable(clean: Bools, labels: NDArray[Any], pool: Bools | None = None) -> Bools:
    """Return which photos may be references: the clean ones, or all of a class that has no clean one."""
    pool = np.ones(len(clean), bool) if pool is None else pool
    empty = np.bincount(labels[clean], minlength=int(labels.max()) + 1) == 0
    return np.asarray((clean | empty[labels]) & pool)


def _deal(group: Ints, labels: NDArray[Any], seed: int) -> Ints:
    """Deal the photos of each class to parts, copies together; a class's only group stays out of all of them: −1."""
    part, generator = np.full(len(labels), -1), np.random.default_rng(seed)
    order = generator.permutation(len(labels))
    for number in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels == number)
        firsts = np.unique(group[members])
        if len(firsts) > 1:
            ranks = np.argsort(np.argsort(order[firsts])) % FOLDS
            part[members] = ranks[np.searchsorted(firsts, group[members])]
    return part[group]  # copies in two classes go where the first of them does


@dataclass(frozen=True, eq=False)
class _Part:
    """Answers of one network about one part of the photos."""

    queries: Ints  # rows
    right: Bools  # with chosen references
    answers: Ints
    random: Floats  # share of the draws that are right, for each photo
    draws: Floats  # accuracy of each draw


def _compare(
    array: NDArray[np.float32],
    labels: NDArray[Any],
    chosen: Ints,
    pool: Bools,
    queries: Bools,
    numbers: Ints,
    draws: int,
    seed: int,
) -> _Part:
    """Ask about a part of the photos, with chosen references and with random ones from the same pool."""
    units = Looks([array], labels, pool).units[0]
    rows, own = np.flatnonzero(pool), np.flatnonzero(queries)
    between = units[own] @ units[rows].T  # [Q, P]
    within = [
        units[rows[labels[rows] == number]] @ units[rows[labels[rows] == number]].T
        for number in range(len(numbers))
    ]
    position = np.full(len(labels), -1)
    position[rows] = np.arange(len(rows))
    starts = np.searchsorted(labels[rows], np.arange(len(numbers)))
    generator = np.random.default_rng(seed)

    def answers(picked: list[Ints]) -> Ints:  # picked: positions in the pool, class by class
        scores = np.empty((len(own), len(numbers)), np.float32)
        for number, positions in enumerate(picked):
            inside = positions - starts[number]
            length = np.sqrt(max(float(within[number][np.ix_(inside, inside)].sum()), 1e-12))
            scores[:, number] = between[:, positions].sum(1) / length
        return np.asarray(scores.argmax(1), np.int64)

    best = answers([position[chosen[labels[chosen] == number]] for number in range(len(numbers))])
    sizes = np.bincount(labels[rows], minlength=len(numbers))
    most = max(2, min(draws, _ANSWERS // max(1, len(own) * int(numbers.sum()))))
    hits, shares = np.zeros(len(own)), np.empty(most)
    for draw in range(most):
        picked = [
            starts[c] + generator.choice(sizes[c], numbers[c], replace=False) for c in range(len(numbers))
        ]
        right = answers(picked) == labels[own]
        hits += right
        shares[draw] = right.mean()
    return _Part(own, best == labels[own], best, hits / most, shares)


def _certify(name: str, chose: bool, parts: Sequence[_Part]) -> Certified:
    """Join the parts: means over all photos, with intervals for other photos of these classes."""
    right = np.concatenate([part.right for part in parts]).astype(float)
    random = np.concatenate([part.random for part in parts])
    sizes = np.array([len(part.queries) for part in parts]) / len(right)
    best = float(sum(size * part.draws.max() for size, part in zip(sizes, parts, strict=True)))
    worse = float(
        sum(size * (part.draws < part.right.mean()).mean() for size, part in zip(sizes, parts, strict=True))
    )
    draws = min(len(part.draws) for part in parts)
    return Certified(
        name,
        chose,
        mean_interval(right),
        mean_interval(random),
        mean_interval(right - random),
        best,
        worse,
        draws,
    )


def _classes(
    data: Dataset, rows: Ints, parts: Sequence[_Part], array: NDArray[np.float32], seed: int
) -> list[ClassChoice]:
    """Return a row per class, with the group of its photos that its references serve worst."""
    queries, right, answers, random = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("queries", "right", "answers", "random")
    )
    labels, classes = data.labels, []
    units = Looks([array], labels).units[0]
    for number, class_id in enumerate(data.class_ids):
        own = np.flatnonzero(labels[queries] == number)
        wrong = np.bincount(answers[own][~right[own]], minlength=len(data.class_ids))
        taken = data.class_ids[int(wrong.argmax())] if wrong.any() else ""
        missing, unserved = "", np.empty(0, np.int64)
        if len(own) >= 6 and not right[own].all():
            from longshot.deploy.choosing_search import groups_of

            looks = groups_of(units[queries[own]], 3, seed)
            missing, unserved = _missing(data, queries[own], right[own], looks)
        mean = [float(values[own].mean()) if len(own) else float("nan") for values in (right, random)]
        chosen = tuple(rows[labels[rows] == number].tolist())
        classes.append(
            ClassChoice(
                class_id, chosen, len(own), mean[0], mean[1], taken, missing, tuple(unserved.tolist())
            )
        )
    return sorted(classes, key=lambda each: (np.nan_to_num(each.chosen, nan=2.0), each.class_id))


def _missing(data: Dataset, rows: Ints, right: Bools, looks: Ints) -> tuple[str, Ints]:
    """Say of which photos a class has too few: a value of an attribute where there are any, else a group of looks."""
    candidates: list[tuple[float, str, Bools]] = []
    columns = (
        {}
        if data.attributes is None
        else {name: data.attributes[name].to_pylist() for name in data.attributes.column_names}
    )
    for name, values in columns.items():
        here = np.array([str(values[row]) for row in rows])
        for value in np.unique(here) if len(np.unique(here)) <= 10 else ():
            candidates.append(
                (_shortfall(right, here == value), f"photos with {name} {value}", here == value)
            )
    for number in np.unique(looks) if not candidates else ():
        candidates.append((_shortfall(right, looks == number), "more photos of one look", looks == number))
    short, words, members = max(candidates, key=lambda each: each[0], default=(0.0, "", right))
    wrong = members & ~right
    if short <= 0.15 or wrong.sum() < 2:
        return "", rows[:0]
    return f"needs {words}: {wrong.sum()} of {members.sum()} are mistaken", rows[wrong]


def _shortfall(right: Bools, members: Bools) -> float:
    """Return how far a group's accuracy lies below that of the rest; 0 where either has under three photos."""
    if members.sum() < 3 or (~members).sum() < 3:
        return 0.0
    return float(right[~members].mean() - right[members].mean())


def _left_out(suspected: Bools, later: Bools, shots: Ints, shot: int) -> tuple[str, ...]:
    """Say what could not be a reference."""
    lines = []
    if suspected.any():
        lines.append(f"{count(int(suspected.sum()), 'photo')} whose label looks wrong")
    if later.any():
        lines.append(f"{count(int(later.sum()), 'copy', 'copies')} of other photos")
    if short := int((shots < shot).sum()):
        lines.append(f"{count(short, 'class', 'classes')} with fewer photos than {shot}: all they have")
    return tuple(lines)
