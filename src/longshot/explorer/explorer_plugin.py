"""What this wing adds to Longshot's commands."""

from longshot.base import Plugin

PLUGIN = Plugin(
    "Runs, tasks and datasets in the browser: serve.",
    commands={
        "serve": (
            "longshot.explorer.serving:serve_command",
            "Look at every task, every mistake, every run, in the browser.",
        ),
    },
)
