"""The pages of a bundle, as Markdown made from the competition's settings."""

from __future__ import annotations

from collections.abc import Sequence

from longshot.competition.domains import describe
from longshot.competition.settings import Competition, Phase
from longshot.competition.templates import template

QUEUE_SECONDS = 600  # the public queue ends what takes longer


def pages(competition: Competition, taking: Sequence[Phase], stored: int, runs: int) -> dict[str, str]:
    """File name → text; ``taking`` are the phases that take submissions, ``stored`` the bytes of the input data."""
    phases = "".join(
        template("phase.md").format(
            name=phase.name,
            tasks=phase.tasks,
            datasets=len(phase.test),
            minutes=phase.limits.seconds / 60,
            allowed=_allowed(phase),
            seeds=_seeds(len(phase.seeds)),
            domains=f" {describe(competition, phase)}".rstrip(),
        )
        for phase in taking
    )
    slow = ", ".join(phase.name for phase in taking if phase.limits.seconds > QUEUE_SECONDS)
    warning = template("slow.md").format(limit=QUEUE_SECONDS, names=slow) if slow else ""
    overview = template("overview.md").format(title=competition.title, shape=competition.shape, phases=phases)
    readme = template("README.md").format(megabytes=stored / 1e6, runs=runs, total=stored * runs / 1e6)
    unchanged = {name: template(name) for name in ("evaluation.md", "submission.md", "terms.md")}
    return {"overview.md": overview, **unchanged, "README.md": readme + warning}


def _allowed(phase: Phase) -> str:
    """The submissions of a team in words."""
    limits = [f"{phase.per_day} a day"] if phase.per_day else []
    limits += [f"{phase.total} in all"] if phase.total else []
    return f"submissions: {', '.join(limits)}" if limits else "any number of submissions"


def _seeds(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs, of which the worst counts"
