"""Danish Fungi 2020: tables of ranks and field notes, photos in folders of either size."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longshot import open_dataset
from longshot.base import UserError

Save = Callable[..., None]
HEAD = (
    *(
        "eventDate",
        "year",
        "month",
        "Habitat",
        "Substrate",
        "countryCode",
        "scientificName",
        "kingdom",
        "phylum",
    ),
    *(
        "class",
        "order",
        "family",
        "genus",
        "specificEpithet",
        "taxonRank",
        "species",
        "class_id",
        "image_path",
    ),
)
ABOVE = ("Fungi", "Basidiomycota", "Agaricomycetes")
SPECIES = {
    "Amanita muscaria": (*ABOVE, "Agaricales", "Amanitaceae", "Amanita"),
    "Amanita fulva": (*ABOVE, "Agaricales", "Amanitaceae", "Amanita"),
    "Boletus edulis": (*ABOVE, "Boletales", "Boletaceae", "Boletus"),
    "Oddia incerta": ("Fungi", "Ascomycota", "", "", "", "Oddia"),
}


def line(species: str, number: int, habitat: str = "coniferous woodland") -> dict[str, str]:
    ranks = dict(zip(HEAD[7:13], SPECIES[species], strict=True)) if species else dict.fromkeys(HEAD[7:13], "")
    where = {"eventDate": f"2018-09-{number:02d}", "year": "2018", "month": "9", "countryCode": "DK"}
    name = {"scientificName": f"{species} (L.) Lam.", "specificEpithet": species[-6:], "taxonRank": "SPECIES"}
    photo = {"image_path": f"22378{number:05d}-7{number:04d}.JPG", "class_id": "7", "species": species}
    return {**where, **name, **ranks, **photo, "Habitat": habitat, "Substrate": "soil"}


def write(file: Path, lines: list[dict[str, str]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, HEAD)
        table.writeheader()
        table.writerows(lines)


@pytest.fixture
def fungi(tmp_path: Path, fresh_cache: Path, save_image: Save) -> Path:
    """DF20-Mini: four species, two rows each for training and one for test; the small photos end in .jpg."""
    root = tmp_path / "DF20M"
    root.mkdir()
    lines = [line(species, 3 * i + k) for i, species in enumerate(SPECIES) for k in range(1, 4)]
    write(root / "DF20M-train_metadata_PROD.csv", [row for i, row in enumerate(lines) if i % 3 < 2])
    write(
        root / "DF20M-public_test_metadata_PROD.csv",
        [row | {"Habitat": ""} for i, row in enumerate(lines) if i % 3 == 2],
    )
    for number, row in enumerate(lines):
        name = row["image_path"].replace(".JPG", ".jpg")
        save_image(root / "DF20M_300" / "photos" / name, (20 * number, 0, 0))
    return root


def test_species_with_their_ranks(fungi: Path) -> None:
    dataset = open_dataset(fungi)
    assert dataset.source.startswith("danish-fungi:")
    assert dataset.class_ids == tuple(sorted(SPECIES)) and dataset.sizes.tolist() == [3, 3, 3, 3]
    taxonomy = dataset.taxonomy
    assert taxonomy is not None and taxonomy.root == "Fungi"
    assert [taxonomy.depth(c) for c in dataset.class_ids] == [
        6,
        6,
        6,
        3,
    ]  # seven ranks with the kingdom; four known
    assert taxonomy.groups(dataset.class_ids)["/".join(SPECIES["Amanita fulva"])] == (
        "Amanita fulva",
        "Amanita muscaria",
    )
    assert [taxonomy.label(n) for n in taxonomy.parents("Boletus edulis")] == ["Boletus"]


def test_field_notes_are_attributes(fungi: Path) -> None:
    dataset = open_dataset(fungi)
    assert dataset.attributes is not None
    kinds = {field.name: str(field.type) for field in dataset.attributes.schema}
    assert kinds == {
        "eventDate": "string",
        "year": "int64",
        "month": "int64",
        "Habitat": "string",
        "Substrate": "string",
        "countryCode": "string",
        "part": "string",
    }
    rows = dict(zip(dataset.keys.to_pylist(), dataset.attributes.to_pylist(), strict=True))
    assert rows["2237800003-70003.JPG"]["part"] == "test" and rows["2237800003-70003.JPG"]["Habitat"] is None
    assert rows["2237800001-70001.JPG"]["Habitat"] == "coniferous woodland"
    assert rows["2237800001-70001.JPG"]["part"] == "train"
    assert not dataset.splits  # the two tables divide photos, not species


def test_each_row_reads_its_photo(fungi: Path) -> None:
    dataset = open_dataset(fungi)
    for row, key in enumerate(dataset.keys.to_pylist()):
        number = int(key[5:10]) - 1
        assert abs(dataset.image(row).getpixel((1, 1))[0] - 20 * number) < 8  # type: ignore[index]


def test_photos_of_full_size_are_the_same_dataset(fungi: Path) -> None:
    before = open_dataset(fungi).fingerprint
    for photo in list((fungi / "DF20M_300" / "photos").iterdir()):
        photo.rename(fungi / "DF20M_300" / photo.name.replace(".jpg", ".JPG"))
    (fungi / "DF20M_300" / "photos").rmdir()
    assert open_dataset(fungi).fingerprint == before
    assert open_dataset(f"danish-fungi(images='DF20M_300'):{fungi}").fingerprint == before


def test_rows_without_a_species_are_told(fungi: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (fungi / "DF20M-train_metadata_PROD.csv").open("a", newline="") as out:
        csv.DictWriter(out, HEAD).writerow(line("", 99))
    assert len(open_dataset(fungi)) == 12
    assert "1 of 13 rows" in capsys.readouterr().err


def test_a_missing_photo_is_counted(fungi: Path, run_cli: Any) -> None:
    (fungi / "DF20M_300" / "photos" / "2237800002-70002.jpg").unlink()
    done = run_cli("datasets", "add", "f", fungi, check=False)
    assert done.returncode == 2
    assert "lists 1 photo of 12 that is not there ('2237800002-70002.JPG')" in done.stderr


def test_a_missing_rank_is_named(fungi: Path) -> None:
    file = fungi / "DF20M-train_metadata_PROD.csv"
    file.write_text(file.read_text().replace("family", "tribe"))
    with pytest.raises(UserError, match=r"has no column family"):
        open_dataset(fungi)


def test_both_datasets_in_one_folder(fungi: Path) -> None:
    write(fungi / "DF20-train_metadata_PROD-2.csv", [line("Amanita fulva", 4)])
    with pytest.raises(UserError, match=r"has both DF20 and DF20-Mini; choose"):
        open_dataset(fungi)
    assert len(open_dataset(f"danish-fungi(mini=True):{fungi}")) == 12
    assert len(open_dataset(f"danish-fungi(mini=False):{fungi}")) == 1


def test_no_photos_at_all(fungi: Path) -> None:
    for photo in list((fungi / "DF20M_300" / "photos").iterdir()):
        photo.unlink()
    with pytest.raises(UserError, match=r"has tables but no folder of photos"):
        open_dataset(fungi)


def test_a_photo_listed_twice_is_named(fungi: Path) -> None:
    with (fungi / "DF20M-public_test_metadata_PROD.csv").open("a", newline="") as out:
        csv.DictWriter(out, HEAD).writerow(line("Amanita muscaria", 1))
    with pytest.raises(UserError, match=r"list 1 photo more than once \('2237800001-70001.JPG'\)"):
        open_dataset(fungi)


def test_columns_that_hold_numbers_in_one_table_only(fungi: Path) -> None:
    file = fungi / "DF20M-public_test_metadata_PROD.csv"
    file.write_text(file.read_text().replace(",9,", ",september,"))
    dataset = open_dataset(fungi)
    assert dataset.attributes is not None
    assert set(dataset.attributes["month"].to_pylist()) == {"9", "september"}
