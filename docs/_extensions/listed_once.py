"""A page that an ordered list of contents names is not named again by the list of all pages below it."""

from __future__ import annotations

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx


def drop_repeats(app: Sphinx, doctree: nodes.document) -> None:
    """Entries of later lists that an earlier one of the same page has."""
    named: set[str] = set()
    for listing in doctree.findall(addnodes.toctree):
        listing["entries"] = [entry for entry in listing["entries"] if entry[1] not in named]
        listing["includefiles"] = [name for name in listing["includefiles"] if name not in named]
        named |= set(listing["includefiles"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", drop_repeats, priority=100)  # before Sphinx collects the lists
    return {"parallel_read_safe": True, "parallel_write_safe": True}
