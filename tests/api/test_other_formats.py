"""Files of another version: every reader says which format it found, which it reads, and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import longshot
from longshot.audit import Overlap, leave_out_overlap
from longshot.base import UserError, write_json
from longshot.data import registry
from longshot.models import read_seen, read_weights_sidecar
from longshot.publish import read_board
from longshot.studies import study_tables
from longshot.training import load_state

Files = dict[str, Path]


@pytest.fixture(scope="module")
def files(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A folder with one of everything that Longshot writes for later."""
    folder = tmp_path_factory.mktemp("files")
    bed = longshot.sample(photos, tasks=2, way=2, shot=1, query=1)
    bed.save(folder / "bed.parquet")
    longshot.evaluate(folder / "bed.parquet", backbones="pixels", methods="protonet", out=folder / "run")
    longshot.make_split(photos, random=True, out=folder / "split.json")
    overlap = longshot.find_overlap(photos, photos, out=folder / "overlap.json")
    overlap.save(folder / "overlap.parquet")
    leave_out_overlap(photos, folder / "overlap.json", out=folder / "photos.view.json")
    small: dict[str, Any] = {"network": "cnn4(width=4)", "size": 16, "steps": 1, "validation_tasks": 2}
    longshot.train("protonet(way=2, shot=1, query=2)", photos, out=folder / "net", **small)
    longshot.embed(photos, "pixels").save(folder / "features.npy")
    longshot.bench("pixels", suite=folder / "bed.parquet", methods="protonet", out=folder / "bench")
    (folder / "study" / "tables").mkdir(parents=True)
    (folder / "study" / "tables" / "drops.md").write_text("| a |", encoding="utf-8")
    write_json(folder / "study" / "study.json", {"format": 1, "title": "A study", "tables": ["drops"]})
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def _train(path: Path, photos: Path) -> Any:
    small: dict[str, Any] = {"network": "cnn4(width=4)", "size": 16, "steps": 1, "validation_tasks": 2}
    return longshot.train("protonet(way=2, shot=1, query=2)", photos, out=path.parent, **small)


JSON_READERS: dict[str, Callable[[Path, Path], Any]] = {
    "run/run.json": lambda path, _: longshot.Results(path.parent),
    "split.json": lambda path, _: longshot.Split.load(path),
    "overlap.json": lambda path, _: Overlap.load(path),
    "photos.view.json": lambda path, _: longshot.open_dataset(path),
    "study/study.json": lambda path, _: study_tables(path.parent),
    "net/network.json": lambda path, _: read_weights_sidecar(path),
    "net/training.json": _train,
    "features.json": lambda path, _: longshot.Features.load(path.with_suffix(".npy")),
    "bench/leaderboard.json": lambda path, _: read_board(path),
}


@pytest.mark.parametrize("name", JSON_READERS)
@pytest.mark.parametrize("version", [0, 99, "2b"])
def test_json_of_another_format(files: Files, name: str, version: object, photos: Path) -> None:
    path = files[name]
    text = path.read_text(encoding="utf-8")
    content = json.loads(text)
    needed = content["format"]
    JSON_READERS[name](path, photos)
    try:
        path.write_text(json.dumps({**content, "format": version}), encoding="utf-8")
        with pytest.raises(UserError) as caught:
            JSON_READERS[name](path, photos)
    finally:
        path.write_text(text, encoding="utf-8")
    fact = caught.value.fact
    assert str(path) in fact and str(version) in fact and f" {needed}" in fact
    assert caught.value.remedy


def test_an_overlap_as_parquet(files: Files) -> None:
    table = pq.read_table(files["overlap.parquet"])
    meta = {**json.loads(table.schema.metadata[b"longshot_overlap"]), "format": 99}
    path = files["overlap.parquet"].with_name("other.parquet")
    pq.write_table(table.replace_schema_metadata({"longshot_overlap": json.dumps(meta)}), path)
    with pytest.raises(UserError, match=r"other.parquet has format 99, this Longshot reads 1; read it with"):
        Overlap.load(path)


def test_the_record_of_training_images(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "network.images.parquet"
    table = pq.read_table(files["net/network.images.parquet"])
    pq.write_table(table.replace_schema_metadata({"longshot_seen": "7"}), path)
    with pytest.raises(
        UserError, match=r"images.parquet has format 7, this Longshot reads 1; train the network"
    ):
        read_seen(tmp_path)
    path.write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"images.parquet is damaged; copy it again"):
        read_seen(tmp_path)
    pq.write_table(pa.table({"stage": [0]}).replace_schema_metadata({"longshot_seen": "1"}), path)
    with pytest.raises(UserError, match=r"images.parquet is damaged"):
        read_seen(tmp_path)


def test_a_checkpoint_of_the_version_before(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    from longshot.models import get_network

    network = get_network("cnn4(width=4)", size=(16, 16))
    header = {"facts": "{}", "optimiser": "{}"}
    save_file({"network.a": torch.zeros(1)}, tmp_path / "state.safetensors", metadata=header)
    with pytest.raises(
        UserError, match=r"state.safetensors has another format than this Longshot reads; go on"
    ):
        load_state(tmp_path, network, torch.optim.SGD(network.parameters()))


def test_a_registry_is_made_anew_and_says_why(fresh_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fresh_cache.mkdir(exist_ok=True)
    write_json(fresh_cache / "registry.json", {"format": 99, "names": {}})
    registry.read_registry()
    printed = capsys.readouterr().err
    assert "registry.json has format 99, this Longshot reads 1" in printed and "set aside as" in printed
