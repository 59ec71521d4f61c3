"""A working competition on the embedded default: its ten families are the domains."""

from __future__ import annotations

from pathlib import Path

from longshot.competition.settings import FILE, Competition, load
from longshot.core.errors import UserError
from longshot.core.files import write_text

TRAIN = ("animals", "buildings", "crockery", "fish", "flowers")
FEEDBACK = ("fruits", "furniture")
FINAL = ("insects", "tools", "vehicles")

_TEXT = """\
# A blind competition. Participants' code runs in a sandbox; they never see the labels of the test tasks.
# Every setting and its meaning: docs/competitions.md.
title: {title}

# name: dataset (a path or a name), or dataset#branch for the classes under one branch
datasets:
{datasets}

leagues: [free-style, meta-learning]
image_size: {size}
shape: {{min_way: 2, max_way: 20, min_shot: 1, max_shot: 20, query: 20}}
fact_sheet: optional  # required: nobody enters the final without one
strict_pools: false  # true: an image that is support in one task is never a query in another

limits:  # of one run of a submission
  memory: {memory}  # bytes, all processes together
  processes: 64
  disk: 1073741824

phases:
  public:  # data to practise on
    submissions: false
    train: [{train}]
    test: [{public}]
    tasks: 10
  feedback:
    train: [{train}, {public}]
    test: [{feedback}]
    tasks: {tasks}  # per dataset
    seeds: [1]
    limits: {{seconds: {seconds}}}
    per_day: 2
    total: 100
  final:
    train: [{train}, {public}]
    test: [{final}]
    tasks: {tasks}
    seeds: [1, 2, 3]  # three runs, the worst counts
    limits: {{seconds: {seconds}}}
    threshold: {{}}  # league: score that the feedback entry must exceed, as in {{free-style: 0.587}}
    review_days: 14
"""


def create(
    folder: str | Path, *, title: str = "Toybox", tasks: int = 20, minutes: float = 30, image_size: int = 128
) -> Competition:
    """Make a working competition on the embedded default: the ten families of toybox are its domains.

    Parameters
    ----------
    folder : str or Path
        A new or empty folder; competition.yaml is written into it.
    title : str
        Title of the competition.
    tasks : int
        Tasks per test dataset.
    minutes : float
        Time that a run of a submission has.
    image_size : int
        Pixels of a side.

    Returns
    -------
    Competition
        The settings that were written.
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty; choose a new folder for the competition.")
    folder.mkdir(parents=True, exist_ok=True)
    names = (*TRAIN, *FEEDBACK, *FINAL)
    text = _TEXT.format(
        title=title,
        datasets="\n".join(f"  {name}: toybox#{name}" for name in names),
        memory=8 << 30,
        train=", ".join(TRAIN[:3]),
        public=", ".join(TRAIN[3:]),
        feedback=", ".join(FEEDBACK),
        final=", ".join(FINAL),
        tasks=tasks,
        seconds=round(60 * minutes),
        size=image_size,
    )
    write_text(folder / FILE, text)
    return load(folder)
