"""Texts that are filled in: a new competition's settings, the pages of a bundle, the model.py of a submission."""

from __future__ import annotations

from importlib.resources import files


def template(name: str) -> str:
    """A text with ``{names}`` to be filled in."""
    return files(__name__).joinpath(name).read_text("utf-8")
