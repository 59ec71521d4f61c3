"""Testbeds that others run: releases with a card and hashes, frozen suites with a leaderboard."""
