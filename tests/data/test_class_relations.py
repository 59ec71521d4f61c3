"""Related classes: by id, name, WordNet's synonyms, and one above the other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from longshot.data import Dataset, FileStore, Taxonomy
from longshot.data.class_relations import Nouns, normalise, read_nouns, shared_classes


def _dataset(*class_ids: str, taxonomy: Taxonomy | None = None) -> Dataset:
    ids = tuple(sorted(class_ids))
    keys = pa.array([f"{c}/0" for c in ids])
    nested = Taxonomy.from_class_ids(ids) if any("/" in c for c in ids) else None
    offsets = np.arange(len(ids) + 1)
    return Dataset("d", ids, offsets, keys, FileStore("", keys), "nowhere", taxonomy=taxonomy or nested)


def _relations(a: Dataset, b: Dataset, nouns: Nouns | None = None) -> set[tuple[str, str, str]]:
    return {(s.a, s.relation, s.b) for s in shared_classes(a, b, nouns)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("001.Black_footed_Albatross", "black footed albatross"),
        ("GrannySmith", "granny smith"),
        ("granny-smith", "granny smith"),
        ("  Apple ", "apple"),
        ("747-400", "747 400"),
        ("2", "2"),
        ("ひ", "ひ"),
        ("!!", "!!"),
    ],
)
def test_names_are_normalised(name: str, text: str) -> None:
    assert normalise(name) == text


def test_same_id_comes_before_same_name() -> None:
    a = _dataset("Fruit/Apple", "Tool/Crane")
    b = _dataset("fruit/apple", "Bird/Crane", "Pear")
    assert _relations(a, b) == {
        ("Fruit/Apple", "same", "fruit/apple"),
        ("Tool/Crane", "name", "Bird/Crane"),
    }


def test_a_class_above_or_below_by_the_datasets_own_taxonomy() -> None:
    fine, coarse = _dataset("Fruit/Apple/Granny-Smith", "Fruit/Pear/Anjou"), _dataset("apple", "stone")
    assert _relations(fine, coarse) == {("Fruit/Apple/Granny-Smith", "below", "apple")}
    assert _relations(coarse, fine) == {("apple", "above", "Fruit/Apple/Granny-Smith")}


def test_within_one_dataset_no_class_is_listed_with_itself() -> None:
    dataset = _dataset("mugs/striped", "vases/striped", "vases/plain")
    assert _relations(dataset, dataset) == {("mugs/striped", "name", "vases/striped")}


@pytest.fixture(scope="module")
def nouns() -> Nouns:
    installed = read_nouns()
    if installed is None:
        pytest.skip("needs WordNet 3.0 (apt install wordnet-base)")
    return installed


def test_synonyms_and_synset_ids(nouns: Nouns) -> None:
    a = _dataset("n02084071", "automobile", "stone wall")
    b = _dataset("Domestic_Dog", "car", "teapot")
    assert _relations(a, b, nouns) == {
        ("n02084071", "name", "Domestic_Dog"),
        ("automobile", "synonym", "car"),
    }
    assert _relations(a, b) == set()


def test_kinds_of_a_class_by_wordnet(nouns: Nouns) -> None:
    a, b = _dataset("bird", "teapot"), _dataset("sparrow", "airliner")
    assert _relations(a, b, nouns) == {("bird", "above", "sparrow")}
    assert _relations(b, a, nouns) == {("sparrow", "below", "bird")}


def test_general_nodes_relate_nothing(nouns: Nouns) -> None:
    assert _relations(_dataset("object"), _dataset("teapot"), nouns) == set()
