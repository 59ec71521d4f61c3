"""Class hierarchies (any DAG with one root, WordNet) and distances between classes."""

from longshot.data.taxonomy.dag import Taxonomy
from longshot.data.taxonomy.distances import class_distances, lowest_common_ancestors
from longshot.data.taxonomy.readers import read_taxonomy
from longshot.data.taxonomy.wordnet import read_wordnet

__all__ = [
    "Taxonomy",
    "class_distances",
    "lowest_common_ancestors",
    "read_taxonomy",
    "read_wordnet",
]
