"""``longshot.find_overlap`` with a page that shows the pairs."""

from __future__ import annotations

from functools import wraps
from typing import Any

from longshot.datasets import overlap


@wraps(overlap.find_overlap)
def find_overlap(*arguments: Any, **settings: Any) -> overlap.Overlap:
    """Find what two datasets share as ``longshot.datasets.overlap`` does, with the page of its pictures."""
    from longshot.reports.overlap_page import render_overlap

    return overlap.find_overlap(*arguments, **{"render": render_overlap, **settings})
