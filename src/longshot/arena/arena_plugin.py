"""What this wing adds to Longshot's commands."""

from longshot.base import Plugin

PLUGIN = Plugin(
    "Blind competitions: compete.",
    commands={
        "compete": (
            "longshot.arena.compete_command:command",
            "Run a blind competition: other people's code on hidden tasks.",
        ),
    },
    command_of={
        "serve_competition": "compete serve",
        "competition.create": "compete init",
        "competition.write_baseline": "compete baseline",
        "competition.build_environment": "compete environment",
        "competition.status": "compete status",
        "competition.export_bundle": "compete bundle",
        "competition.check_bundle": "compete validate",
    },
)
