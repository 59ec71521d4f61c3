"""Classes that two datasets share: by id, by name, by WordNet's synonyms, or one above the other in a hierarchy.

Images that they share are on record where they were compared before.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Record, UserError, find_cached, read_parquet
from longshot.data import WORDNET_ROOT, Dataset, Taxonomy, find_wordnet, read_wordnet

RELATIONS = ("same", "name", "synonym", "above", "below")  # the strongest first
_SYNSET = re.compile(r"^n\d{8}$")
_NUMBER = re.compile(r"^\d+[\s._-]+(?=.*[^\W\d])")  # the "001." of "001.Black_footed_Albatross"
# Names that say nothing of what is in the pictures: "class 12", "folder_a", "char07".
_EMPTY_WORDS = {
    "class",
    "category",
    "char",
    "character",
    "folder",
    "group",
    "image",
    "label",
    "object",
    "set",
    "type",
}
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
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
        """Return the synsets above these (themselves left out), without the most general ones."""
        above: set[str] = set()
        for synset in synsets:
            if synset not in self._ancestors and synset in self.taxonomy:
                higher = self.taxonomy.ancestors(synset) - {synset, WORDNET_ROOT}
                self._ancestors[synset] = frozenset(s for s in higher if self.taxonomy.depth(s) >= _GENERAL)
            above |= self._ancestors.get(synset, frozenset())
        return frozenset(above)


def read_nouns() -> Nouns | None:
    """Read WordNet's nouns, or None where WordNet is not installed."""
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


class SharedClass(Record):
    """A class of A and one of B: ``same`` id, same ``name``, ``synonym``; ``above``: B's class is a kind of A's;
    ``below``: A's class is a kind of B's."""

    a: str
    b: str
    relation: str
    by: str  # the name, synset or node that both have in common


def normalise(name: str) -> str:
    """Return a class name for comparison: lower case, words apart, without a leading number or punctuation.

    >>> normalise("001.Black_footed_Albatross"), normalise("GrannySmith")
    ('black footed albatross', 'granny smith')
    """
    text = _HUMP.sub(" ", _NUMBER.sub("", name.strip()))
    words = re.sub(r"[^\w]+|_+", " ", text.lower()).split()
    return " ".join(words) or name.strip().lower()


def _path(class_id: str) -> str:
    """Return a class id with each part normalised."""
    return "/".join(part if _SYNSET.match(part) else normalise(part) for part in class_id.split("/"))


def shared_classes(a: Dataset, b: Dataset, nouns: Nouns | None = None) -> list[SharedClass]:
    """List related classes, one row per pair with the strongest relation, by A's class, then B's.

    A class is above another when one of the other's ancestors, in its own dataset's taxonomy or in WordNet, has its
    name. ``nouns`` is WordNet where it is installed: ids such as n02084071 are its synsets, other names are taken
    in their most frequent sense.
    """
    strongest: dict[tuple[str, str], SharedClass] = {}

    def add(pairs: Iterable[SharedClass]) -> None:
        for pair in pairs:
            strongest.setdefault((pair.a, pair.b), pair)

    names_a, names_b = _names(a, nouns), _names(b, nouns)
    ids_a, ids_b = ({c: frozenset([_path(c)]) for c in dataset.class_ids} for dataset in (a, b))
    add(_matches(ids_a, ids_b, "same"))
    add(_matches(names_a, names_b, "name"))
    if nouns is not None:
        senses_a, senses_b = ({c: _sense(names, nouns) for c, names in x.items()} for x in (names_a, names_b))
        add(_matches(senses_a, senses_b, "synonym"))
    above_a, above_b = _above(a, names_a), _above(b, names_b)
    add(_matches(names_a, above_b, "above"))
    add(_matches(above_a, names_b, "below"))
    if nouns is not None:
        high_a, high_b = ({c: nouns.ancestors(s) for c, s in x.items()} for x in (senses_a, senses_b))
        add(_matches(senses_a, high_b, "above"))
        add(_matches(high_a, senses_b, "below"))
    within = a.fingerprint == b.fingerprint  # then a class is no news to itself, nor a pair twice
    pairs = [pair for pair in strongest.values() if pair.a < pair.b or not within]
    return sorted(pairs, key=lambda pair: (pair.a, pair.b))


def related_classes(a: Dataset, b: Dataset, nouns: Nouns | None = None) -> dict[str, str]:
    """Return the classes of A that are related to classes of B, with the relation in words.

    By id, by name, as synonyms, one above the other (:func:`shared_classes`), or of the kind that all classes of B are
    in WordNet: with a dataset of birds every bird is related.
    """
    kinds = {"above": "above", "below": "a kind of"}
    related = {
        pair.a: f"{kinds.get(pair.relation, 'the same as')} {pair.b}"
        for pair in reversed(shared_classes(a, b, nouns))
        if _says_something(pair.by)
    }
    if nouns is not None:
        senses = [sense for names in _names(b, nouns).values() if (sense := _sense(names, nouns))]
        lines = [nouns.ancestors(sense) | sense for sense in senses]
        shared = frozenset.intersection(*lines) if len(lines) > 1 else frozenset()
        if shared:
            kind = max(shared, key=lambda synset: (nouns.taxonomy.depth(synset), synset))
            for class_id, names in _names(a, nouns).items():
                own = _sense(names, nouns)
                if kind in own | nouns.ancestors(own):
                    related.setdefault(class_id, f"a kind of {nouns.lemmas[kind][0]}, as all of {b.name}")
    return related


def seen_classes(
    trained: Iterable[str], tested: Iterable[str], labels: Mapping[str, str], nouns: Nouns | None = None
) -> set[str]:
    """Find ``tested`` classes among the ``trained`` ones: by name, synset or WordNet's synonyms.

    Parameters
    ----------
    trained, tested : iterable of str
        Ids of classes of two datasets. What only numbers or letters its classes ("7", "class_b") matches nothing.
    labels : mapping
        Tested class → what a taxonomy calls it, where it has another name.
    nouns : Nouns, optional
        WordNet, where it is installed.

    Examples
    --------
    >>> sorted(seen_classes(["Fruit/Granny_Smith", "class_1"], ["apples/granny-smith", "class_1", "pear"], {}))
    ['apples/granny-smith']
    """
    names_a = {each: _texts(each, None, nouns) for each in trained}
    names_b = {each: _texts(each, labels.get(each), nouns) for each in tested}
    pairs = _matches(names_b, names_a, "name")
    if nouns is not None:
        senses_a, senses_b = ({c: _sense(names, nouns) for c, names in x.items()} for x in (names_a, names_b))
        pairs += _matches(senses_b, senses_a, "synonym")
    return {pair.a for pair in pairs if _says_something(pair.by)}


def _says_something(name: str) -> bool:
    """Say whether a name tells classes of datasets apart: a synset, or a word of three letters that means one."""
    words = (word for word in name.split() if word.isalpha() and len(word) > 2)
    return _SYNSET.match(name) is not None or any(word not in _EMPTY_WORDS for word in words)


ClassTexts: TypeAlias = Mapping[str, frozenset[str]]


def _names(dataset: Dataset, nouns: Nouns | None) -> dict[str, frozenset[str]]:
    """List what each class of a dataset goes by."""
    taxonomy = dataset.taxonomy
    return {
        c: _texts(c, taxonomy.label(c) if taxonomy is not None and c in taxonomy else None, nouns)
        for c in dataset.class_ids
    }


def _texts(class_id: str, label: str | None, nouns: Nouns | None) -> frozenset[str]:
    """List what a class goes by: its synset id and words, its label in the taxonomy, the last part of its id."""
    name = class_id.rpartition("/")[2]
    names = {name if _SYNSET.match(name) else normalise(name)}
    if label is not None:
        names.add(normalise(label))
    if nouns is not None and _SYNSET.match(name):
        names.update(normalise(lemma) for lemma in nouns.lemmas.get(name, ()))
    return frozenset(names - {""})


def _sense(names: frozenset[str], nouns: Nouns) -> frozenset[str]:
    """Return the synsets of a class: its own id where it is one, else the first sense of its name, if no number."""
    own = {name for name in names if _SYNSET.match(name)}
    words = {name for name in names if _says_something(name) and name in nouns.first}
    return frozenset(own or {nouns.first[name] for name in words})


def _above(dataset: Dataset, names: ClassTexts) -> dict[str, frozenset[str]]:
    """List the names of the nodes above each class in the dataset's own taxonomy, the root left out."""
    taxonomy = dataset.taxonomy
    if taxonomy is None:
        return {}
    above = {}
    for class_id in names:
        if class_id in taxonomy:
            higher = taxonomy.ancestors(class_id) - {class_id, taxonomy.root}
            texts = {text for node in higher for text in (node, normalise(taxonomy.label(node))) if text}
            above[class_id] = frozenset(texts - names[class_id])
    return above


def _matches(a: ClassTexts, b: ClassTexts, relation: str) -> list[SharedClass]:
    """Find pairs of classes with a common text, through an index over B."""
    index: dict[str, list[str]] = {}
    for class_id, texts in b.items():
        for text in texts:
            index.setdefault(text, []).append(class_id)
    return [
        SharedClass(a=class_id, b=other, relation=relation, by=text)
        for class_id, texts in a.items()
        for text in sorted(texts)
        for other in index.get(text, ())
    ]


def overlap_name(a: str, b: str) -> str:
    """Name the file of the cache that holds what dataset ``a`` shares with ``b``, by their fingerprints."""
    return f"{a[:32]}-{b[:32]}.parquet"


def known_copies(a: str, b: str) -> tuple[pa.Table | None, bool]:
    """Read the copies, exact and near, that an earlier comparison of two datasets found, by their fingerprints.

    Returns
    -------
    tuple
        The pairs, with columns ``key_a``, ``class_a``, ``key_b`` and ``class_b``, or None where the datasets were not
        compared; and whether ``b`` was compared with ``a``.
    """
    for name, turned in ((overlap_name(a, b), False), (overlap_name(b, a), True)):
        if (path := find_cached("overlap", name)) is not None:
            try:
                pairs = read_parquet(path)
                return pairs.filter(pc.is_in(pairs["kind"], pa.array(("exact", "near")))), turned
            except (pa.ArrowException, KeyError, OSError) as error:
                raise UserError(
                    f"{path} is no overlap file of Longshot ({' '.join(str(error).split())[:120]})",
                    "remove it, or compare the datasets anew with {find_overlap(A, B)}",
                ) from error
    return None, False
