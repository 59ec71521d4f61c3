"""Releases: a folder with testbeds and a card that others can check, evaluate on and send scores for."""
