"""What the Hard-Meta-Dataset++ paper printed as numbers, to stand beside one's own; always marked as published."""

from __future__ import annotations

from longshot.networks.aliases import ALIASES
from longshot.reports.sheets import Sheet
from longshot.studies.engine.published import PublishedTable, published_paper


def source() -> str:
    """Where the numbers were printed."""
    facts = published_paper(__package__).source
    return f"{facts.short}, {facts.title}"


def names() -> list[str]:
    """The tables there are: ``table 1`` …, ``figure 4`` …"""
    return list(published_paper(__package__).tables)


def table(name: str) -> PublishedTable:
    """One printed table; UserError with those there are."""
    return published_paper(__package__).table(name)


def sheet(name: str) -> Sheet:
    """The printed table to read, its title saying that it was not measured here."""
    short = published_paper(__package__).source.short.replace(",", "")
    return table(name).sheet(f"Published, not measured here ({short}, {name}): {table(name).caption}")


def backbone(name: str) -> str:
    """A paper's network as a backbone here; any other name stays, and so does one that must be fetched by hand."""
    return ALIASES[name].route or name if name in ALIASES else name
