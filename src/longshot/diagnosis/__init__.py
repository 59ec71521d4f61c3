"""Why a task is hard: what its support and queries look like, and where they differ more than chance allows."""

import lazy_loader

from longshot.base import Plugin

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

PLUGIN = Plugin(
    "Whether a folder can be told apart, and why tasks are hard: check, explain, attributes.",
    commands={
        "check": (
            "longshot.diagnosis.diagnosis_commands:check_command",
            "Measure how well a network tells the classes of a folder apart.",
        ),
        "attributes": (
            "longshot.diagnosis.diagnosis_commands:attributes_command",
            "Describe images, and rank their attributes by what a shift costs.",
        ),
        "explain": (
            "longshot.diagnosis.diagnosis_commands:explain_command",
            "Say why the tasks of a testbed are hard.",
        ),
    },
    command_of={"measure_attributes": "attributes", "suggest_attributes": "attributes suggest"},
)
