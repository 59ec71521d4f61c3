"""Partitions of classes into train, validation and test: at a chosen distance, random, semantic, published."""

from longshot.tasks.splits.published_splits import open_split, with_split
from longshot.tasks.splits.split import Split

__all__ = ["Split", "open_split", "with_split"]
