"""WordNet 3.0's noun hierarchy, read from its ``data.noun`` file."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from longshot.base import UserError
from longshot.data.taxonomy.dag import Taxonomy

ROOT = "n00001740"  # entity
_HYPERNYMS = ("@", "@i")  # is a kind of, is an instance of
_INSTALL = "apt install wordnet-base"
_PLACES = (
    "/usr/share/wordnet/data.noun",
    "/usr/local/WordNet-3.0/dict/data.noun",
    "~/nltk_data/corpora/wordnet/data.noun",
    "/usr/share/nltk_data/corpora/wordnet/data.noun",
)


def find_wordnet() -> Path:
    """The installed ``data.noun``: ``$LONGSHOT_WORDNET`` if set, else the usual places."""
    chosen = os.environ.get("LONGSHOT_WORDNET")
    for candidate in (chosen,) if chosen else _PLACES:
        path = Path(candidate).expanduser()
        path = path / "data.noun" if path.is_dir() else path
        if path.is_file():
            return path
    looked = f"at {chosen} (LONGSHOT_WORDNET)" if chosen else "in the usual places"
    raise UserError(
        f"WordNet's data.noun was not found {looked}",
        f"install it with '{_INSTALL}' (Debian, Ubuntu) or set LONGSHOT_WORDNET to a data.noun file of WordNet 3.0",
    )


def read_wordnet(path: str | os.PathLike[str] | None = None) -> Taxonomy:
    """All noun synsets of WordNet 3.0 (82,115) below ``entity``, with edges from hypernym to hyponym.

    A node is ImageNet's id: ``n`` and the synset's eight-digit offset; its label is the first lemma.
    Edges are in the order of the file, which the shortest-path reduction depends on.
    """
    file = Path(path) if path is not None else find_wordnet()
    if not file.is_file():
        raise UserError(f"There is no WordNet file at {file}", f"install one with '{_INSTALL}'")
    return _read(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _read(file: Path, _modified: int) -> Taxonomy:
    text = file.read_text(encoding="utf-8", errors="replace")
    _check_version(file, text)
    edges: list[tuple[str, str]] = []
    labels: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(" ") or not line:
            continue  # the licence
        try:
            _parse(line, edges, labels)
        except (ValueError, IndexError):
            raise UserError(
                f"Line {number:,} of {file} is not a noun synset; the file is damaged or not a data.noun: "
                f"install a fresh copy with '{_INSTALL}'."
            ) from None
    return Taxonomy.from_edges(edges, labels)


def _parse(line: str, edges: list[tuple[str, str]], labels: dict[str, str]) -> None:
    """One synset: offset, file, type, number of lemmas (hex), lemmas, number of pointers, pointers."""
    fields = line.split(" | ", 1)[0].split()
    if len(fields[0]) != 8 or fields[2] != "n":
        raise ValueError("not a noun")
    node = "n" + fields[0]
    words = int(fields[3], 16)
    labels[node] = fields[4].replace("_", " ")
    at = 4 + 2 * words
    for pointer in range(int(fields[at])):
        symbol, offset, kind, _ = fields[at + 1 + 4 * pointer : at + 5 + 4 * pointer]
        if symbol in _HYPERNYMS and kind == "n":
            edges.append(("n" + offset, node))


def _check_version(file: Path, text: str) -> None:
    """WordNet 3.0 only: other versions give other offsets, so ids would silently mean other things."""
    header = re.search(r"WordNet (\d+(?:\.\d+)*) Copyright", text[:5000])
    # Without the licence header the offset of "dog" tells: 02084071 in 3.0, 02086723 in 3.1.
    dog = re.search(r"^(\d{8}) \d\d n [0-9a-f]{2} dog 0 domestic_dog ", text, re.MULTILINE)
    if header is not None:
        version = header[1]
    elif dog is not None:
        version = {"02084071": "3.0", "02086723": "3.1"}.get(dog[1], "of an unknown version")
    else:
        raise UserError(
            f"{file} is not WordNet's data.noun (no version in its header and no synset 'dog'); "
            f"install WordNet 3.0 with '{_INSTALL}'."
        )
    if version != "3.0":
        raise UserError(
            f"{file} is WordNet {version}, whose offsets are not ImageNet's ids; WordNet 3.0 is needed: "
            f"install it with '{_INSTALL}'."
        )
