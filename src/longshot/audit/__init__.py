"""What two datasets share, and what is doubtful in one: copies, related classes, labels; datasets without them."""

from __future__ import annotations

from longshot.audit.classes import RELATIONS
from longshot.audit.find import View, find_overlap, find_suspects, leave_out_overlap, pair_images
from longshot.audit.record import Overlap, find_leak, leak_sentence

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
