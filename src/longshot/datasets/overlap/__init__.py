"""What two datasets share, and what is doubtful in one: copies, related classes, labels; datasets without them."""

from __future__ import annotations

from longshot.datasets.overlap.classes import RELATIONS
from longshot.datasets.overlap.find import find_overlap, pair_images
from longshot.datasets.overlap.leaks import find_leak, leak_sentence
from longshot.datasets.overlap.record import Overlap
from longshot.datasets.overlap.suspects import find_suspects
from longshot.datasets.overlap.view import View, leave_out_overlap

__all__ = [
    "RELATIONS",
    "Overlap",
    "View",
    "find_leak",
    "find_overlap",
    "find_suspects",
    "leak_sentence",
    "leave_out_overlap",
    "pair_images",
]
