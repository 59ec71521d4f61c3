"""Studies: the papers' protocols as recipes, ready to run on any dataset.

run_study        run a preset or a study file into a folder
estimate_study   what that would take
list_studies     every preset; get_study: one of them; read_study: a study file of one's own
"""

from longshot.studies.engine.presets import (
    Study,
    get_study,
    layered,
    list_studies,
    read_changes,
    read_study,
    study_names,
)
from longshot.studies.engine.recipe import StudyEstimate, StudyOutcome
from longshot.studies.engine.run import estimate_study, run_study

__all__ = [
    "Study",
    "StudyEstimate",
    "StudyOutcome",
    "estimate_study",
    "get_study",
    "layered",
    "list_studies",
    "read_changes",
    "read_study",
    "run_study",
    "study_names",
]
