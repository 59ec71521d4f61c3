"""Class hierarchies (any DAG with one root, WordNet) and distances between classes."""

from longshot.taxonomy.dag import Taxonomy

__all__ = ["Taxonomy"]
