"""``longshot.find_overlap`` with a page that shows the pairs."""

from __future__ import annotations

from functools import wraps
from typing import Any

from longshot.audit import Overlap
from longshot.audit import find_overlap as find


@wraps(find)
def find_overlap(*arguments: Any, **settings: Any) -> Overlap:
    """Find what two datasets share as ``longshot.audit`` does, with the page of its pictures."""
    from longshot.reports import render_overlap

    return find(*arguments, **{"render": render_overlap, **settings})
