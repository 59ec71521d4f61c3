"""A working competition on the embedded default: its ten families are the domains."""

from __future__ import annotations

from pathlib import Path

from longshot.competition.settings import FILE, Competition, load
from longshot.competition.templates import template
from longshot.core.files import write_text
from longshot.core.outputs import claim_folder

TRAIN = ("animals", "buildings", "crockery", "fish", "flowers")
FEEDBACK = ("fruits", "furniture")
FINAL = ("insects", "tools", "vehicles")


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
    claim_folder(folder, "competition", name="folder")
    folder.mkdir(parents=True, exist_ok=True)
    names = (*TRAIN, *FEEDBACK, *FINAL)
    text = template(FILE).format(
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
