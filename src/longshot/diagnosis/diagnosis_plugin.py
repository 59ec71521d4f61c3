"""What this wing adds to Longshot's commands."""

from longshot.base import Plugin

PLUGIN = Plugin(
    "Why tasks are hard: explain, attributes.",
    commands={
        "attributes": (
            "longshot.diagnosis.diagnosis_commands:attributes_command",
            "What is known of images, and what their pixels tell.",
        ),
        "explain": (
            "longshot.diagnosis.diagnosis_commands:explain_command",
            "Why the tasks of a testbed are hard.",
        ),
    },
    command_of={"measure_attributes": "attributes"},
)
