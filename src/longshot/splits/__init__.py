"""Partitions of classes into train, validation and test: at a chosen distance, random, semantic, published."""

from longshot.splits.split import Split

__all__ = ["Split"]
