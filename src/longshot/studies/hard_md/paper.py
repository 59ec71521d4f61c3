"""What the Hard-Meta-Dataset++ paper printed as numbers, to stand beside one's own; always marked as published."""

from __future__ import annotations

from longshot.models import ALIASES
from longshot.reports import Sheet
from longshot.studies.engine.published import published_paper


def printed_sheet(name: str) -> Sheet:
    """The printed table to read, its title saying that it was not measured here."""
    paper = published_paper(__package__)
    title = f"Published, not measured here ({paper.source.short.replace(',', '')}, {name})"
    return paper.table(name).sheet(f"{title}: {paper.table(name).caption}")


def paper_backbone(name: str) -> str:
    """A paper's network as a backbone here; any other name stays, and so does one that must be fetched by hand."""
    return ALIASES[name].route or name if name in ALIASES else name
