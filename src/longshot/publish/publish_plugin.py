"""What this wing adds to Longshot's commands."""

from longshot.base import Plugin

PLUGIN = Plugin(
    "Testbeds that others run: release, verify, bench.",
    commands={
        "bench": (
            "longshot.publish.bench_command:command",
            "Measure a model on a frozen suite: one card, one leaderboard.",
        ),
        "release": (
            "longshot.publish.release_commands:release_command",
            "Publish testbeds with a card, hashes and baselines.",
        ),
        "verify": (
            "longshot.publish.release_commands:verify_command",
            "Check a copy of a release against your own images.",
        ),
    },
)
