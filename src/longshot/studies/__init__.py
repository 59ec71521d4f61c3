"""Studies: the papers' protocols as recipes, ready to run on any dataset.

run_study        run a preset or a study file into a folder
estimate_study   what that would take
list_studies     every preset; get_study: one of them; read_study: a study file of one's own
study_tables     all tables of a study that was run, as Markdown, LaTeX or CSV

For a study of one's own (docs/howto/new-study.md): Recipe, OneDataset, StudySettings, Plan, StudyTraining, Evaluation,
Draw, Side, Comparison, Claim and its numbers, TableRow, TableColumn, score_table, Picture.
"""

import lazy_loader

from longshot.base import Plugin

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

PLUGIN = Plugin(
    "The papers' protocols: study.",
    commands={
        "study": ("longshot.studies.study_command:command", "Run the papers' protocols on any dataset."),
    },
    command_of={"run_study": "study run", "studies.study_tables": "study tables"},
    estimates={"run_study": "longshot.studies:estimate_study"},
)
