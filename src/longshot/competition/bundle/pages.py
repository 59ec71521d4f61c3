"""The pages of a bundle, as Markdown made from the competition's settings."""

from __future__ import annotations

from collections.abc import Sequence

from longshot.competition.settings import Competition, Phase
from longshot.competition.templates import template

QUEUE_SECONDS = 600  # the public queue ends what takes longer


def pages(competition: Competition, taking: Sequence[Phase]) -> dict[str, str]:
    """File name → text; ``taking`` are the phases that take submissions."""
    phases = "".join(
        template("phase.md").format(
            phase=phase, datasets=len(phase.test), minutes=phase.limits.seconds / 60, seeds=len(phase.seeds)
        )
        for phase in taking
    )
    slow = ", ".join(phase.name for phase in taking if phase.limits.seconds > QUEUE_SECONDS)
    warning = template("slow.md").format(limit=QUEUE_SECONDS, names=slow) if slow else ""
    overview = template("overview.md").format(title=competition.title, shape=competition.shape, phases=phases)
    unchanged = {name: template(name) for name in ("evaluation.md", "submission.md", "terms.md")}
    return {"overview.md": overview, **unchanged, "README.md": template("README.md") + warning}
