"""Studies: the papers' protocols as recipes, ready to run on any dataset.

run_study        run a preset or a study file into a folder
estimate_study   what that would take
list_studies     every preset; get_study: one of them; read_study: a study file of one's own
study_tables     all tables of a study that was run, as Markdown, LaTeX or CSV

For a study of one's own (docs/howto/new-study.md): Recipe, OneDataset, StudySettings, Plan, StudyTraining, Evaluation,
Draw, Side, Comparison, Claim and its numbers, TableRow, TableColumn, score_table, Picture.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
