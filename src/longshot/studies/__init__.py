"""Studies: the papers' protocols as recipes, ready to run on any dataset.

run_study        run a preset or a study file into a folder
estimate_study   what that would take
list_studies     every preset; get_study: one of them; read_study: a study file of one's own
study_tables     all tables of a study that was run, as Markdown, LaTeX or CSV

For a study of one's own (docs/howto/new-study.md): Recipe, OneDataset, StudySettings, Plan, StudyTraining, Evaluation,
Draw, Side, Comparison, Claim and its numbers, TableRow, TableColumn, score_table, Picture.
"""

from longshot.studies.engine.claims import (
    Claim,
    Measured,
    NotMeasured,
    of_correlation,
    of_resamples,
    of_slope,
    of_sources,
    of_values,
    paired,
    unpaired,
)
from longshot.studies.engine.comparisons import Comparison, Side
from longshot.studies.engine.draws import Draw
from longshot.studies.engine.figures import Picture
from longshot.studies.engine.job import StudyEstimate, StudyOutcome
from longshot.studies.engine.lab import Evaluation, Lab, Plan
from longshot.studies.engine.presets import (
    Study,
    get_study,
    layered,
    list_studies,
    read_changes,
    read_study,
    study_names,
)
from longshot.studies.engine.printing import study_tables
from longshot.studies.engine.recipe import OneDataset, Recipe
from longshot.studies.engine.run import estimate_study, run_study
from longshot.studies.engine.settings import StudySettings
from longshot.studies.engine.tables import TableColumn, TableFile, TableRow, score_table
from longshot.studies.engine.training import StudyTraining

__all__ = [
    "Claim",
    "Comparison",
    "Draw",
    "Evaluation",
    "Lab",
    "Measured",
    "NotMeasured",
    "OneDataset",
    "Picture",
    "Plan",
    "Recipe",
    "Side",
    "Study",
    "StudyEstimate",
    "StudyOutcome",
    "StudySettings",
    "StudyTraining",
    "TableColumn",
    "TableFile",
    "TableRow",
    "estimate_study",
    "get_study",
    "layered",
    "list_studies",
    "of_correlation",
    "of_resamples",
    "of_slope",
    "of_sources",
    "of_values",
    "paired",
    "read_changes",
    "read_study",
    "run_study",
    "score_table",
    "study_names",
    "study_tables",
    "unpaired",
]
