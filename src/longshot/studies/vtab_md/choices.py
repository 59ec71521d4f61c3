"""Which of several candidates a row takes for big episodes: the best on the validation images, one for all tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longshot.studies.engine.scores import Scores
from longshot.studies.vtab_md.plan import VtabLab, choice_name, plan_of
from longshot.studies.vtab_md.scores import image_values

RULE = "Of candidates that tie, the one listed first is taken."


@dataclass(frozen=True)
class Choice:
    """What the candidates of one row came to on the validation images of ``tasks`` big episodes."""

    row: str
    accuracy: Mapping[str, float]  # candidate → mean over tasks
    images: int  # validation images, of all tasks together
    tasks: int
    chance: float  # of guessing: mean over tasks of 1 / classes
    reach: float  # half the 95 % interval of an accuracy by guessing

    @property
    def tied(self) -> list[str]:
        """The candidates with the highest accuracy."""
        best = max(self.accuracy.values())
        return [
            call for call, accuracy in self.accuracy.items() if math.isclose(accuracy, best, abs_tol=1e-12)
        ]

    @property
    def chosen(self) -> str:
        """The first of those with the best mean."""
        return self.tied[0]

    @property
    def notes(self) -> list[str]:
        """A tie, and a choice among candidates of which none is above chance."""
        best = 100 * max(self.accuracy.values())
        sentences = []
        if len(self.tied) > 1:
            sentences.append(
                f"{self.row}: {len(self.tied)} of {len(self.accuracy)} candidates tie at {best:.2f} % on "
                f"{self.images:,} validation images; the one listed first is taken, {self.chosen}."
            )
        if best <= 100 * (self.chance + self.reach):
            sentences.append(
                f"Warning, {self.row}: no candidate is told from guessing on {self.images:,} validation images (best "
                f"{best:.2f} %, guessing {100 * self.chance:.2f} ± {100 * self.reach:.2f} %), so the choice of "
                f"{self.chosen} says nothing about them."
            )
        return sentences


def choose(row: str, accuracy: Mapping[str, Mapping[str, float]], sizes: Sequence[tuple[int, int]]) -> Choice:
    """Take the candidate with the best mean over tasks, the first of those that tie.

    Parameters
    ----------
    row : str
        The row's name.
    accuracy : mapping
        Candidate → task → share of its validation images.
    sizes : sequence of (int, int)
        Validation images and classes of every task.

    Returns
    -------
    Choice
        The candidate with its reasons. By guessing, task i has a mean of 1/c_i; the mean of k tasks has the error
        √(Σ (1/c_i)(1 − 1/c_i)/n_i) / k.

    Examples
    --------
    >>> choice = choose("BiT", {"a": {"pets": 0.5, "dtd": 0.1}, "b": {"pets": 0.2, "dtd": 0.4}}, [(20, 5), (20, 10)])
    >>> choice.chosen, choice.tied, round(choice.chance, 2)
    ('a', ['a', 'b'], 0.15)
    """
    means = {call: sum(by_task.values()) / len(by_task) for call, by_task in accuracy.items()}
    shares = [1 / classes for _, classes in sizes]
    spread = sum(share * (1 - share) / images for share, (images, _) in zip(shares, sizes, strict=True))
    return Choice(
        row=row,
        accuracy=means,
        images=sum(images for images, _ in sizes),
        tasks=len(sizes),
        chance=sum(shares) / len(shares),
        reach=1.959963984540054 * math.sqrt(spread) / len(sizes),
    )


def choices_of(lab: VtabLab) -> dict[str, Choice]:
    """Row → the choice among its candidates, made once; rows with a single candidate have none."""
    return lab.once("choices", lambda: _choices(lab))


def _choices(lab: VtabLab) -> dict[str, Choice]:
    plan = plan_of(lab)
    beds = [choice_name(source) for source in plan.big]
    choices = {}
    for row in plan.rows:
        if len(row.vtab) < 2 or not beds:
            continue
        results = lab.evaluate(beds, row.backbone, row.vtab, into="choices")
        scores, backbone = Scores(results, lab.testbeds), lab.backbone(row.backbone)
        accuracy = {
            call: {bed: float(image_values(scores, bed, backbone, call).mean()) for bed in beds}
            for call in row.vtab
        }
        sizes = [
            (len(lab.testbeds[bed].column("query_label").values), len(lab.testbeds[bed][0].classes))
            for bed in beds
        ]
        choices[row.name] = choose(row.name, accuracy, sizes)
    return choices


def big_method(lab: VtabLab, row: str) -> str | None:
    """What a row runs on big episodes: its only method, or the candidate that was chosen."""
    [approach] = [each for each in plan_of(lab).rows if each.name == row]
    if not approach.vtab or not plan_of(lab).big:
        return None
    choice = choices_of(lab).get(row)
    return approach.vtab[0] if choice is None else choice.chosen
