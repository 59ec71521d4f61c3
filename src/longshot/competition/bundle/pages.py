"""The pages of a bundle, as Markdown made from the competition's settings."""

from __future__ import annotations

from collections.abc import Sequence

from longshot.competition.settings import Competition, Phase

QUEUE_SECONDS = 600  # the public queue ends what takes longer

_OVERVIEW = """\
# {title}

Learn to classify images of classes and domains you have never seen, from {shape.min_shot} to {shape.max_shot} images of
each of {shape.min_way} to {shape.max_way} classes.

{phases}
"""

_PHASE = """\
- **{phase.name}**: {phase.tasks} tasks of each of {datasets} hidden datasets, {minutes:,.0f} minutes, {phase.per_day}
  submissions a day, {seeds} run(s) of which the worst counts.
"""

_EVALUATION = """\
# Evaluation

Normalised accuracy = (bac − 1/N) / (1 − 1/N), where bac is the mean recall over the N classes of a task, averaged over
all tasks. Guessing gives 0, a perfect classifier 1. Ties go to the earlier submission.
"""

_SUBMISSION = """\
# Submission

A zip with a `model.py` at its top that defines `MyMetaLearner` and `MyLearner` (`from api import MetaLearner, Learner,
Predictor`), helper modules beside it and an optional `config.json`.
"""

_TERMS = """\
# Terms

Submitted code is run by the organisers. Results are published under the team's name or pseudonym.
"""

_ORGANISER = """\
# For the organiser

Upload this zip as a competition bundle. Leagues are a field of the fact sheet, since only the first leaderboard of a
competition is ranked. The ingestion program brings the Longshot package along, so that submissions may import it where
the docker image has what the imported part needs: NumPy and torch, and for the baselines and submissions that 'longshot
compete make-submission' wrote also Pillow, PyYAML, pyarrow, pydantic and safetensors.
"""

_SLOW = """
The public queue ends a run after {limit} s; the phases {names} allow more, so attach a queue of your own before they
start.
"""


def pages(competition: Competition, taking: Sequence[Phase]) -> dict[str, str]:
    """File name → text; ``taking`` are the phases that take submissions."""
    phases = "".join(
        _PHASE.format(
            phase=phase, datasets=len(phase.test), minutes=phase.limits.seconds / 60, seeds=len(phase.seeds)
        )
        for phase in taking
    )
    slow = [phase.name for phase in taking if phase.limits.seconds > QUEUE_SECONDS]
    warning = _SLOW.format(limit=QUEUE_SECONDS, names=", ".join(slow)) if slow else ""
    return {
        "overview.md": _OVERVIEW.format(title=competition.title, shape=competition.shape, phases=phases),
        "evaluation.md": _EVALUATION,
        "submission.md": _SUBMISSION,
        "terms.md": _TERMS,
        "README.md": _ORGANISER + warning,
    }
