"""Testbeds that others run: releases with a card and hashes, frozen suites with a leaderboard."""

import lazy_loader

from longshot.base import Plugin

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

PLUGIN = Plugin(
    "Testbeds that others run: release, verify, bench.",
    testbeds={"suites": "longshot.publish.suite:shipped_testbeds"},
    commands={
        "bench": (
            "longshot.publish.publish_commands:command",
            "Measure a model on a frozen suite: one card, one leaderboard.",
        ),
        "release": (
            "longshot.publish.publish_commands:release_command",
            "Publish testbeds with a card, hashes and baselines.",
        ),
        "verify": (
            "longshot.publish.publish_commands:verify_command",
            "Check a copy of a release against your own images.",
        ),
    },
)
