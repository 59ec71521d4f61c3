"""Codabench bundles (version 2): written from a competition, checked, and run locally."""
