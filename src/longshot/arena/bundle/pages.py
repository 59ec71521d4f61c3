"""The pages of a bundle, as Markdown made from the competition's settings."""

from __future__ import annotations

from collections.abc import Sequence

from longshot.arena.bundle.describe import allowed_in_all
from longshot.arena.domains import describe
from longshot.arena.settings import META, Competition, Phase
from longshot.arena.templates import template

LEAGUES = (
    "Leagues are a field of the fact sheet, since only the first leaderboard of a competition is ranked. The platform "
    "does not tell the programs which league a team chose: nothing here keeps a submission of the meta-learning league "
    "from learned weights. A bundle of that league alone does ('longshot compete bundle FOLDER -o meta.zip --league "
    "meta-learning')."
)
ALONE = (
    "It is the competition of the meta-learning league alone: saved weights in an archive are refused, those among the "
    "image's packages cannot be read, and a submission that asks for them or for the network fails with the line that "
    "asked."
)
QUEUE_SECONDS = 600  # the public queue ends what takes longer


def pages(competition: Competition, taking: Sequence[Phase], stored: int, runs: int) -> dict[str, str]:
    """File name → text; ``taking`` are the phases that take submissions, ``stored`` the bytes of the input data."""
    phases = "".join(
        template("phase.md").format(
            name=phase.name,
            tasks=phase.tasks,
            datasets=len(phase.test),
            minutes=phase.limits.seconds / 60,
            allowed=_allowed(phase.per_day, allowed_in_all(competition, phase)),
            seeds=_seeds(len(phase.seeds)),
            domains=f" {describe(competition, phase)}".rstrip(),
        )
        for phase in taking
    )
    slow = ", ".join(phase.name for phase in taking if phase.limits.seconds > QUEUE_SECONDS)
    warning = template("slow.md").format(limit=QUEUE_SECONDS, names=slow) if slow else ""
    overview = template("overview.md").format(title=competition.title, shape=competition.shape, phases=phases)
    alone = competition.leagues == (META,)
    readme = template("README.md").format(
        megabytes=stored / 1e6,
        runs=runs,
        total=stored * runs / 1e6,
        leagues=ALONE if alone else LEAGUES,
        logs=_logs(taking),
        packages=_packages(competition),
    )
    unchanged = {name: template(name) for name in ("evaluation.md", "submission.md", "terms.md")}
    return {"overview.md": overview, **unchanged, "README.md": readme + warning}


def _logs(taking: Sequence[Phase]) -> str:
    """What comes out of runs, phase by phase."""
    open_phases = [phase.name for phase in taking if phase.logs == "printed"]
    text = (
        "What it prints is dropped, and of a failure the log has the stage, the kind of Python's exception and a line "
        "of the archive."
    )
    if open_phases:
        text += (
            f" In {', '.join(open_phases)} ('logs: printed') the log has its words too, each line marked and cut at a "
            f"length."
        )
    return text


def _packages(competition: Competition) -> str:
    """What the competition promises submissions beyond what its programs need."""
    if not competition.requirements:
        return ""
    path = competition.folder / competition.requirements
    lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else []
    names = ", ".join(line.partition("#")[0].strip() for line in lines if line.partition("#")[0].strip())
    return (
        f" This competition also promises submissions these packages, so the image must have them: {names}."
    )


def _allowed(per_day: int, total: int) -> str:
    """The submissions of a team in words."""
    if total == 1:
        return "1 submission"
    limits = [f"{per_day} a day"] if per_day else []
    limits += [f"{total} in all"] if total else []
    return f"submissions: {', '.join(limits)}" if limits else "any number of submissions"


def _seeds(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs, of which the worst counts"
