from __future__ import annotations

from pathlib import Path

import pytest

from longshot.base import UserError
from longshot.data import WORDNET_ROOT, Taxonomy, find_wordnet, read_wordnet

# A noun file in miniature: entity, thing below it, dog below thing, Lassie an instance of dog.
LINES = """00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | what exists
00001930 03 n 02 thing 0 physical_thing 1 002 @ 00001740 n 0000 + 00692347 v 0101 | a thing | with a bar
02084071 05 n 03 dog 0 domestic_dog 0 Canis_familiaris 0 001 @ 00001930 n 0000 | barks
02084072 05 n 01 Lassie 0 001 @i 02084071 n 0000 | a film dog
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "data.noun"
    path.write_text(text)
    return path


def test_synsets_become_imagenet_ids_with_lemmas_as_labels(tmp_path: Path) -> None:
    header = "  1 WordNet 3.0 Copyright 2006 by Princeton University.\n"
    taxonomy = read_wordnet(_file(tmp_path, header + LINES))
    assert taxonomy.root == WORDNET_ROOT
    assert taxonomy.label("n02084071") == "dog"


def test_both_kinds_of_hypernyms_are_edges_in_the_order_of_the_file(tmp_path: Path) -> None:
    taxonomy = read_wordnet(_file(tmp_path, LINES))
    assert taxonomy.edges == (
        ("n00001740", "n00001930"),
        ("n00001930", "n02084071"),
        ("n02084071", "n02084072"),
    )


def test_wordnet_31_is_refused_by_its_header(tmp_path: Path) -> None:
    file = _file(tmp_path, "  1 WordNet 3.1 Copyright 2011 by Princeton University.\n" + LINES)
    with pytest.raises(UserError, match=r"is WordNet 3\.1.*3\.0 is needed.*apt install wordnet-base"):
        read_wordnet(file)


def test_wordnet_31_without_a_header_is_refused_by_its_offsets(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is WordNet 3\.1"):
        read_wordnet(_file(tmp_path, LINES.replace("02084071", "02086723")))


def test_another_file_is_not_taken_for_wordnet(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not WordNet's data\.noun"):
        read_wordnet(_file(tmp_path, "parent,child\na,b\n"))


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Line 5 of .* is not a noun synset"):
        read_wordnet(_file(tmp_path, LINES + "02084073 05 n 01 cut 0 003 @ 0208"))


def test_a_missing_installation_gives_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LONGSHOT_WORDNET", str(tmp_path / "none"))
    with pytest.raises(UserError, match="apt install wordnet-base"):
        find_wordnet()


def test_the_environment_points_to_a_folder_or_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = _file(tmp_path, LINES)
    monkeypatch.setenv("LONGSHOT_WORDNET", str(tmp_path))
    assert find_wordnet() == file


def test_all_nouns_hang_below_entity(wordnet: Taxonomy) -> None:
    assert (len(wordnet), wordnet.root) == (82_115, WORDNET_ROOT)


def test_every_ilsvrc_class_is_a_synset(wordnet: Taxonomy, shared: Path) -> None:
    import json

    class_ids = list(json.loads((shared / "golden/ilsvrc_counts.json").read_text()))
    assert len(wordnet.indices(class_ids)) == 1000
