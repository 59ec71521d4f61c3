"""What this wing adds to Longshot's commands."""

from longshot.base import Plugin

PLUGIN = Plugin(
    "Runs, tasks and datasets in the browser: serve.",
    commands={
        "serve": (
            "longshot.explorer.serve_command:command",
            "Look at every task, every mistake, every run, in the browser.",
        ),
    },
)
