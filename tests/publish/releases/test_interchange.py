"""What a release says to others' programs, read by those programs: mlcroissant, datasets, huggingface_hub."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from longshot.base import UserError, hash_file
from longshot.data import open_dataset
from longshot.publish import release
from longshot.tasks import AnyShape, FixedShape, Testbed, sample

mlcroissant = pytest.importorskip("mlcroissant", reason="needs mlcroissant")
ABOUT: dict[str, Any] = {
    "title": 'Hard: "photos" | 50 % — ünder',
    "version": "1.2",
    "licence": "CC-BY-4.0",
    "authors": ["A. Author", "B. Author"],
    "url": "https://example.org/hard",
    "published": "2026-05-31",
    "citation": "@misc{x}",
}


@pytest.fixture(scope="module")
def images(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The photos under a path that nobody else should learn of."""
    return Path(shutil.copytree(photos, tmp_path_factory.mktemp("secret-place") / "photos"))


@pytest.fixture(scope="module")
def beds(images: Path) -> dict[str, Testbed]:
    dataset = open_dataset(images)
    return {
        "plain": sample(dataset, tasks=7, shape=FixedShape(3, 2, 4), seed=1),
        "any way [1]": sample(dataset, tasks=5, shape=AnyShape(max_way=4, max_shot=3, query=2), seed=2),
    }


@pytest.fixture(scope="module")
def released(beds: dict[str, Testbed], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release(beds, out=tmp_path_factory.mktemp("released") / "photos", **ABOUT)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def files_of(folder: Path) -> dict[str, str]:
    """Name in release.json → the configuration and record set of the testbed."""
    facts = json.loads((folder / "release.json").read_text("utf-8"))
    return {bed["name"]: Path(bed["file"]).stem for bed in facts["testbeds"]}


def as_lists(record: dict[str, Any]) -> dict[str, Any]:
    """A record of mlcroissant as plain values: it gives bytes and arrays, named by record set and field."""

    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            return value.decode()
        if hasattr(value, "tolist"):
            value = value.tolist()
        return [plain(member) for member in value] if isinstance(value, list) else value

    return {name.split("/")[-1]: plain(value) for name, value in record.items()}


def same(record: dict[str, Any], row: dict[str, Any]) -> bool:
    return list(record) == list(row) and all(
        record[name] == pytest.approx(value, nan_ok=True)
        if isinstance(value, float)
        else record[name] == value
        for name, value in row.items()
    )


def test_mlcroissant_reads_every_task(released: Path, beds: dict[str, Testbed]) -> None:
    opened = mlcroissant.Dataset(jsonld=released / "croissant.json")
    assert not opened.metadata.ctx.issues.errors and not opened.metadata.ctx.issues.warnings
    for name, record_set in files_of(released).items():
        records = [as_lists(record) for record in opened.records(record_set)]
        rows = beds[name].table.to_pylist()
        assert len(records) == len(rows)
        assert all(same(record, row) for record, row in zip(records, rows, strict=True))


def test_croissant_says_who_when_and_under_which_licence(released: Path) -> None:
    metadata = mlcroissant.Dataset(jsonld=released / "croissant.json").metadata
    assert metadata.name == ABOUT["title"] and metadata.version == "1.2.0"
    assert metadata.license == ["https://spdx.org/licenses/CC-BY-4.0.html"]
    assert [creator.name for creator in metadata.creators] == ABOUT["authors"]
    assert metadata.date_published.date().isoformat() == "2026-05-31" and metadata.cite_as == "@misc{x}"
    sums = {file.id: file.sha256 for file in metadata.distribution}
    assert sums == {name: hash_file(released / name) for name in sums}
    assert {"README.md", "release.json", "testbeds/plain.parquet"} <= set(sums)


def test_mlcroissant_refuses_a_changed_testbed(released: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(released, tmp_path / "copy"))
    with (copy / "testbeds" / "plain.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(mlcroissant.GenerationError, match=r"plain\.parquet") as caught:
        list(mlcroissant.Dataset(jsonld=copy / "croissant.json").records("plain"))
    assert "hash" in str(caught.value.__cause__).lower()


def test_load_dataset_opens_the_folder(
    released: Path, beds: dict[str, Testbed], tmp_path: Path, offline: None
) -> None:
    import datasets

    assert datasets.get_dataset_config_names(str(released)) == list(files_of(released).values())
    for name, configuration in files_of(released).items():
        loaded = datasets.load_dataset(str(released), configuration, split="test", cache_dir=str(tmp_path))
        rows = beds[name].table.to_pylist()
        assert len(loaded) == len(rows)
        assert all(same(record, row) for record, row in zip(loaded, rows, strict=True))
    first = datasets.load_dataset(str(released), cache_dir=str(tmp_path))  # the default is the first testbed
    assert list(first) == ["test"] and first["test"].num_rows == 7


def test_the_hub_reads_the_card(released: Path) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")
    card = hub.DatasetCard.load(released / "README.md")
    assert card.data.pretty_name == ABOUT["title"] and card.data.license == "cc-by-4.0"
    assert card.data.task_categories == ["image-classification"] and card.data.size_categories == ["n<1K"]
    assert [entry["data_files"][0]["path"] for entry in card.data.configs] == [
        f"testbeds/{stem}.parquet" for stem in files_of(released).values()
    ]
    assert card.text.lstrip().startswith("# Hard")  # what people read begins with the title


def test_nothing_about_this_machine_is_published(released: Path, images: Path) -> None:
    """Sources are told by name, fingerprint and digests: where they lie is nobody's business."""
    secrets = [os.fspath(images), "secret-place", os.fspath(released.parent), os.fspath(Path.home())]
    for path in released.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [secret for secret in secrets if secret.encode() in content], path.name


def test_names_that_are_no_file_names_stay_inside(
    released: Path, beds: dict[str, Testbed], tmp_path: Path
) -> None:
    assert files_of(released)["any way [1]"] == "1-any-way-1-"
    folder = release({"../../up": beds["plain"]}, out=tmp_path / "a" / "b", title="x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert [path.name for path in (folder / "testbeds").iterdir()] == ["0--..-up.parquet"]


def test_without_facts_croissant_is_valid_and_warns(beds: dict[str, Testbed], tmp_path: Path) -> None:
    folder = release({"plain": beds["plain"]}, out=tmp_path / "bare", title="Bare")
    metadata = mlcroissant.Dataset(jsonld=folder / "croissant.json").metadata
    assert not metadata.ctx.issues.errors
    warned = "\n".join(metadata.ctx.issues.warnings)
    assert all(name in warned for name in ("datePublished", "license", "citeAs"))
    assert (
        metadata.description
        == "7 few-shot image-classification tasks on photos. The images are not part of it."
    )


def test_a_date_that_is_none_is_refused(beds: dict[str, Testbed], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'31\.5\.2026' is no day; pass published="):
        release({"plain": beds["plain"]}, out=tmp_path / "x", title="x", published="31.5.2026")


def test_the_command_line_says_the_same(beds: dict[str, Testbed], tmp_path: Path, run_cli: RunCli) -> None:
    beds["plain"].save(tmp_path / "plain.parquet")
    words = ["--title", "Same", "--author", "A", "--author", "B", "--url", "https://example.org"]
    run_cli(
        "release", tmp_path / "plain.parquet", *words, "--published", "2026-01-02", "-o", tmp_path / "cli"
    )
    by_python = release(
        {"plain": beds["plain"]},
        out=tmp_path / "python",
        title="Same",
        authors=["A", "B"],
        url="https://example.org",
        published="2026-01-02",
    )
    assert (tmp_path / "cli" / "SHA256SUMS").read_text() == (by_python / "SHA256SUMS").read_text()
