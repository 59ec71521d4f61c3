"""Taxonomies from files: edge lists (CSV, JSON, text), nested JSON, parents by child, a column, WordNet's data.noun."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from longshot.base import (
    Floats,
    Ints,
    OutputKind,
    UserError,
    count,
    deliver_text,
    first,
    hash_json,
    is_never_own,
    note,
)
from longshot.data.dataset import is_wordnet_id
from longshot.data.taxonomy import Taxonomy

if TYPE_CHECKING:
    from longshot.data.dataset import Dataset, TaxonomyLike

_LINES_HELP = "write a parent and a child on each line, a space between them"
_CSV_HELP = "it needs the columns 'parent' and 'child' (and 'label' if you like)"
_JSON_HELP = (
    'write a list of [parent, child] pairs, {"edges": […], "labels": {…}}, {child: parent}, or nested objects with one '
    "root"
)


def read_taxonomy(path: str | os.PathLike[str], class_ids: Sequence[str] = ()) -> Taxonomy:
    """Read an edge list (``.csv``, ``.json``, ``.txt``), nested JSON, or a WordNet 3.0 ``data.noun``.

    CSV: the columns ``parent``, ``child`` and optionally ``label`` (the child's); a row with an empty parent
    names the root. JSON: [[parent, child], …], {"edges": …, "labels": …}, or nested objects such as
    {"food": {"fruit": {"apple": null, "pear": null}}}, where lists of leaves are fine too; names that all have a name
    as value are {child: parent}. Text: a parent and a child on each line, as ImageNet's ``wordnet.is_a.txt``. With
    ``class_ids`` a root with none of these classes below is left out, and what lies below such roots alone.
    """
    file = Path(path)
    if not file.is_file():
        raise UserError(f"There is no taxonomy file at {file}", "check the path")
    if file.name == "data.noun":
        return read_wordnet(file)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8 text (byte {error.start:,})", "save it as UTF-8") from None
    if file.suffix.lower() == ".json":
        return _from_json(file, text, class_ids)
    if file.suffix.lower() == ".csv":
        return _from_csv(file, text, class_ids)
    if file.suffix.lower() == ".txt":
        return _from_lines(file, text, class_ids)
    raise UserError(
        f"{file} is not a taxonomy by its name", "give a .csv, .json or .txt edge list, or data.noun"
    )


def is_taxonomy_file(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file is a taxonomy: JSON, data.noun, wordnet.is_a.txt, or a CSV of parents and children."""
    file = Path(path)
    if not file.is_file():
        return False
    if file.suffix.lower() == ".csv":
        with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
            return {"parent", "child"} <= set(next(csv.reader(lines), []))
    return file.name in ("data.noun", "wordnet.is_a.txt") or file.suffix.lower() == ".json"


# People write and correct such files by hand: nothing in one proves that it is Longshot's, so none is replaced unasked.
EDGES = OutputKind("list of edges", {".csv": is_never_own})
MATRIX = OutputKind("matrix of distances", {".csv": is_never_own})


def write_csv(taxonomy: Taxonomy, path: str | os.PathLike[str]) -> None:
    """Write the edge list that :func:`read_taxonomy` reads back, in the same order, with labels."""
    edges = (("", taxonomy.root), *taxonomy.edges)
    rows = ([parent, child, taxonomy.labels.get(child, "")] for parent, child in edges)
    _write_rows(path, [["parent", "child", "label"], *rows])


def write_matrix(path: str | os.PathLike[str], class_ids: Sequence[str], matrix: Floats) -> None:
    """Write numbers [C, C] between classes as CSV, with the classes as first row and first column."""
    rows = ([class_id, *row] for class_id, row in zip(class_ids, matrix.tolist(), strict=True))
    _write_rows(path, [["class", *class_ids], *rows])


def _write_rows(path: str | os.PathLike[str], rows: Iterable[Sequence[object]]) -> None:
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(rows)
    deliver_text(path, lines.getvalue())


def read_counts(source: str | Path | Mapping[str, int], class_ids: Sequence[str]) -> Ints:
    """Read images per class [C] from {class: images} or a JSON file of it; UserError where a class is missing."""
    try:
        value = source if isinstance(source, Mapping) else json.loads(Path(source).read_text("utf-8"))
        missing = [class_id for class_id in class_ids if class_id not in value]
        if missing:
            subject = "{counts}" if isinstance(source, Mapping) else source
            raise UserError(
                f"{subject} has no count for the class '{missing[0]}' "
                f"({len(missing)} of {len(class_ids)} are missing); add them."
            )
        return np.array([int(value[class_id]) for class_id in class_ids], np.int64)
    except FileNotFoundError:
        raise UserError(f"There is no file of counts at {source}; check the path.") from None
    except (ValueError, TypeError):
        raise UserError(f'{source} is not JSON of the form {{"class": images}}; mend it.') from None


def read_ids(path: Path) -> list[str]:
    """Read the first column of a text or CSV file, in order, each once."""
    if not path.is_file():
        raise UserError(f"There is no file of class ids at {path}; check the path.")
    with path.open(encoding="utf-8-sig", newline="") as lines:
        ids = list(dict.fromkeys(row[0].strip() for row in csv.reader(lines) if row and row[0].strip()))
    if not ids:
        raise UserError(f"{path} has no class id; write one a line, such as n01440764.")
    return ids


def from_parent_column(pairs: Iterable[tuple[str, str | None]]) -> Taxonomy:
    """Build a taxonomy from (class, parent) pairs, such as two columns of an image table; repeats are fine.

    A class may be another's parent; one with different parents in different rows has them all. A parent such
    as ``Fruit/Apple`` is a nested path. What has no parent hangs below the root ``""``, unless it is the one
    such node, which then is the root.
    """
    edges: dict[tuple[str, str], None] = {}
    nodes: dict[str, None] = {}
    for child, parent in dict.fromkeys(pairs):
        nodes[child] = None
        if not parent:
            continue
        parts = parent.split("/")
        path = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
        nodes.update(dict.fromkeys(path))
        edges.update(dict.fromkeys(pairwise([*path, child])))
    below = {child for _, child in edges}
    tops = [node for node in nodes if node not in below]
    if len(tops) > 1 or not edges:
        edges = {**dict.fromkeys(("", top) for top in tops), **edges}
    return Taxonomy.from_edges(edges)


def _from_lines(file: Path, text: str, class_ids: Sequence[str]) -> Taxonomy:
    pairs = [line.split() for line in text.splitlines() if line.strip()]
    for number, pair in enumerate(pairs, start=1):
        if len(pair) != 2:
            raise UserError(f"Edge {number:,} of {file} has {count(pair, 'word')}", _LINES_HELP)
    return _build(file, [(parent, child) for parent, child in pairs], {}, [], _LINES_HELP, class_ids)


def _from_csv(file: Path, text: str, class_ids: Sequence[str]) -> Taxonomy:
    rows = csv.DictReader(io.StringIO(text, newline=""))
    if not {"parent", "child"} <= set(rows.fieldnames or []):
        columns = ", ".join(rows.fieldnames or []) or "nothing"
        raise UserError(f"{file} has the columns {columns}", _CSV_HELP)
    edges: list[tuple[str, str]] = []
    labels: dict[str, str] = {}
    alone: list[str] = []
    for row in rows:
        parent, child = (row["parent"] or "").strip(), (row["child"] or "").strip()
        if not child:
            raise UserError(f"Line {rows.line_num} of {file} has no child", _CSV_HELP)
        if row.get("label"):
            labels[child] = row["label"].strip()
        if parent:
            edges.append((parent, child))
        else:
            alone.append(child)
    return _build(file, edges, labels, alone, _CSV_HELP, class_ids)


def _from_json(file: Path, text: str, class_ids: Sequence[str]) -> Taxonomy:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{file} is not JSON (line {error.lineno}: {error.msg})", _JSON_HELP) from None
    labels: dict[str, str] = {}
    if isinstance(value, dict) and isinstance(value.get("edges"), list):
        labels = {str(node): str(label) for node, label in (value.get("labels") or {}).items()}
        alone = [str(value["root"])] if "root" in value else []
        return _build(file, _pairs(file, value["edges"]), labels, alone, _JSON_HELP, class_ids)
    if isinstance(value, list):
        return _build(file, _pairs(file, value), labels, [], _JSON_HELP, class_ids)
    if isinstance(value, dict) and len(value) > 1 and all(isinstance(each, str) for each in value.values()):
        edges = [(parent, child) for child, parent in value.items()]
        return _build(file, edges, labels, [], _JSON_HELP, class_ids)
    if isinstance(value, dict):
        return _build(file, list(_nested(file, value)), labels, list(value), _JSON_HELP, class_ids)
    raise UserError(f"{file} holds {type(value).__name__} instead of edges", _JSON_HELP)


def _pairs(file: Path, value: list[Any]) -> list[tuple[str, str]]:
    for number, pair in enumerate(value, start=1):
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(x, str) for x in pair)):
            raise UserError(f"Edge {number} of {file} is not a pair of names", _JSON_HELP)
    return [(parent, child) for parent, child in value]


def _nested(file: Path, value: Any, parent: str | None = None) -> Iterable[tuple[str, str]]:
    """Yield the edges of nested objects; a leaf is a string in a list or a key whose value is empty."""
    names = {value: None} if isinstance(value, str) else value or {}
    if isinstance(names, list):
        for item in names:
            yield from _nested(file, item, parent)
        return
    if not isinstance(names, dict):
        raise UserError(f"{file} holds {value!r} where names are expected below '{parent}'", _JSON_HELP)
    for name, inner in names.items():
        if parent is not None:
            yield parent, name
        yield from _nested(file, inner, name)


def _build(
    file: Path,
    edges: list[tuple[str, str]],
    labels: dict[str, str],
    alone: list[str],
    help_text: str,
    class_ids: Sequence[str],
) -> Taxonomy:
    """Build the taxonomy of the edges and of nodes named on their own; mistakes name the file."""
    unique = _below_used_roots(file, tuple(dict.fromkeys(edges)), class_ids)
    nodes = {node for edge in unique for node in edge} | set(alone)
    if not nodes:
        raise UserError(f"{file} has no edge", help_text)
    try:
        return Taxonomy(tuple(sorted(nodes)), unique, labels)
    except UserError as error:
        raise UserError(f"{file}: {error.fact}", error.remedy) from None


def _below_used_roots(
    file: Path, edges: tuple[tuple[str, str], ...], class_ids: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Leave out the edges below roots that have none of the classes below them, with a note."""
    parents: dict[str, list[str]] = {}
    children: dict[str, list[str]] = {}
    for parent, child in edges:
        parents.setdefault(child, []).append(parent)
        children.setdefault(parent, []).append(child)
    roots = [node for node in children if node not in parents]
    above = _reach(parents, class_ids)
    used = [root for root in roots if root in above]
    if not 0 < len(used) < len(roots):
        return edges
    note(
        f"{file} has {len(roots):,} roots; left out are {len(roots) - len(used):,} that have none of the "
        f"{len(class_ids):,} classes below ({first([root for root in roots if root not in above])})"
    )
    below = _reach(children, used)
    return tuple(edge for edge in edges if edge[0] in below)


def _reach(neighbours: Mapping[str, Sequence[str]], start: Iterable[str]) -> set[str]:
    """Return all nodes that can be reached, the first ones included."""
    reached, waiting = set(start), list(start)
    while waiting:
        fresh = [node for node in neighbours.get(waiting.pop(), ()) if node not in reached]
        reached.update(fresh)
        waiting += fresh
    return reached


WORDNET_ROOT = "n00001740"  # entity
_HYPERNYMS = ("@", "@i")  # is a kind of, is an instance of
_INSTALL = "apt install wordnet-base"
_PLACES = (
    "/usr/share/wordnet/data.noun",
    "/usr/local/WordNet-3.0/dict/data.noun",
    "~/nltk_data/corpora/wordnet/data.noun",
    "/usr/share/nltk_data/corpora/wordnet/data.noun",
)


def find_wordnet() -> Path:
    """Find the installed ``data.noun``: ``$LONGSHOT_WORDNET`` if set, else the usual places."""
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
    """Read all noun synsets of WordNet 3.0 (82,115) below ``entity``, with edges from hypernym to hyponym.

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
    """Parse one synset: offset, file, type, number of lemmas (hex), lemmas, number of pointers, pointers."""
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
    """Check that this is WordNet 3.0: other versions give other offsets, so ids would silently mean other things."""
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


# ---- for the classes of a dataset

WORDNET = "wordnet"


def taxonomy_for(dataset: Dataset, taxonomy: TaxonomyLike) -> tuple[Taxonomy, str]:
    """Open the taxonomy that shall stand above the classes; return it and what it is called."""
    if isinstance(taxonomy, Taxonomy):
        return taxonomy, "that was given"
    if taxonomy != WORDNET:
        return read_taxonomy(taxonomy, dataset.class_ids), Path(taxonomy).name
    other = [class_id for class_id in dataset.class_ids if not is_wordnet_id(class_id)]
    if other:
        raise UserError(
            f"{{taxonomy:wordnet}} needs classes that are called by WordNet ids, such as n01440764, and "
            f"{len(other):,} of the {len(dataset.class_ids):,} classes of '{dataset.name}' are not ({first(other)})",
            "give {taxonomy:FILE}",
        )
    return wordnet_part(dataset.class_ids), "WordNet 3.0"


def wordnet_above(class_ids: Sequence[str], instead: Taxonomy | None = None) -> Taxonomy | None:
    """Return the part of WordNet above the classes; ``instead``, with a note, where it cannot be had."""
    if not all(map(is_wordnet_id, class_ids)):
        return instead
    lacking = (
        "the classes have no WordNet hierarchy"
        if instead is None
        else "only the split's own hierarchy is used"
    )
    try:
        return wordnet_part(class_ids)
    except UserError as error:
        note(f"{lacking}: {error.template}")
        return instead


def wordnet_part(class_ids: Sequence[str]) -> Taxonomy:
    """Return the part of WordNet above the classes; UserError where WordNet is missing or lacks a class.

    Reading all of WordNet takes over a second, so the part is remembered.
    """
    from longshot.data.formats.base import cached_index  # formats know taxonomies, too

    table = cached_index(
        f"wordnet above {hash_json(sorted(class_ids))}", [find_wordnet()], lambda: _as_table(class_ids)
    )
    labels = dict(zip(table["child"].to_pylist(), table["label"].to_pylist(), strict=True))
    edges = [
        (parent, child)
        for parent, child in zip(table["parent"].to_pylist(), table["child"].to_pylist(), strict=True)
        if parent is not None
    ]
    return Taxonomy.from_edges(edges, labels)


def _as_table(class_ids: Sequence[str]) -> pa.Table:
    """List edges in WordNet's order with the label of the child; the root has no parent."""
    wordnet = read_wordnet()
    missing = [class_id for class_id in class_ids if class_id not in wordnet]
    if missing:
        raise UserError(
            f"WordNet 3.0 lacks {count(missing, 'class', 'classes')} of {len(class_ids):,} ({first(missing)}); are the "
            f"folders called by ImageNet's ids?"
        )
    part = wordnet.restrict(class_ids)
    edges = [(None, part.root), *part.edges]
    return pa.table(
        {
            "parent": pa.array([parent for parent, _ in edges], pa.string()),
            "child": pa.array([child for _, child in edges], pa.string()),
            "label": pa.array([part.label(child) for _, child in edges], pa.string()),
        }
    )
