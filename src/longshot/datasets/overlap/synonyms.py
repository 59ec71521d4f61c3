"""WordNet's nouns for comparing class names: the words of a synset, the first sense of a word, what lies above."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from longshot.core.errors import UserError
from longshot.taxonomy.dag import Taxonomy
from longshot.taxonomy.wordnet import ROOT, find_wordnet, read_wordnet

# Nodes so general that to lie below them says nothing: entity, object, living thing … have thousands below.
_GENERAL = 6  # levels from the root


@dataclass(frozen=True)
class Nouns:
    """``lemmas``: synset → its words; ``first``: word → the synset of its most frequent sense."""

    lemmas: Mapping[str, tuple[str, ...]]
    first: Mapping[str, str]
    taxonomy: Taxonomy
    _ancestors: dict[str, frozenset[str]] = field(default_factory=dict)

    def ancestors(self, synsets: frozenset[str]) -> frozenset[str]:
        """Synsets above these (themselves left out), without the most general ones."""
        above: set[str] = set()
        for synset in synsets:
            if synset not in self._ancestors and synset in self.taxonomy:
                higher = self.taxonomy.ancestors(synset) - {synset, ROOT}
                self._ancestors[synset] = frozenset(s for s in higher if self.taxonomy.depth(s) >= _GENERAL)
            above |= self._ancestors.get(synset, frozenset())
        return frozenset(above)


def read_nouns() -> Nouns | None:
    """WordNet's nouns, or None where WordNet is not installed."""
    try:
        file = find_wordnet()
    except UserError:
        return None
    return _read(file)


@lru_cache(maxsize=1)
def _read(file: Path) -> Nouns:
    taxonomy = read_wordnet(file)
    lemmas: dict[str, tuple[str, ...]] = {}
    first: dict[str, str] = {}
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith(" "):
                continue  # the licence
            fields = line.split(" | ", 1)[0].split()
            words = int(fields[3], 16)
            lemmas["n" + fields[0]] = tuple(
                w.replace("_", " ").lower() for w in fields[4 : 4 + 2 * words : 2]
            )
    with contextlib.suppress(FileNotFoundError), (file.parent / "index.noun").open(encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith(" "):
                fields = line.split()
                # The offsets stand at the end, the most frequent sense first; their number is the third field.
                first[fields[0].replace("_", " ").replace("-", " ")] = "n" + fields[-int(fields[2])]
    if not first:  # a data.noun alone: a word that belongs to one synset only has one sense
        counted: dict[str, list[str]] = {}
        for synset, words_of in lemmas.items():
            for word in words_of:
                counted.setdefault(word.replace("-", " "), []).append(synset)
        first = {word: synsets[0] for word, synsets in counted.items() if len(synsets) == 1}
    return Nouns(lemmas, first, taxonomy)
