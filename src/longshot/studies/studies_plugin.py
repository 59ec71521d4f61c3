"""What this wing adds to Longshot's commands."""

from longshot.base import Plugin

PLUGIN = Plugin(
    "The papers' protocols: study.",
    commands={
        "study": ("longshot.studies.study_command:command", "Run the papers' protocols on any dataset."),
    },
    command_of={"run_study": "study run", "studies.study_tables": "study tables"},
    estimates={"run_study": "longshot.studies:estimate_study"},
)
