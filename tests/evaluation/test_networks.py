"""A network is one series, whatever its path is called."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import longshot
from longshot.base import UserError
from longshot.evaluation.run_inputs import open_backbones
from longshot.models import get_network, load_backbone, save_checkpoint

STORY = {"preprocessing": "decode|resize(16,16)|value_range(0,1)"}


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A saved network, its copy under another name, and another network."""
    for name, seed in (("a/net", 0), ("other", 1)):
        save_checkpoint(tmp_path / name, get_network("cnn4(width=4)", size=(16, 16), seed=seed), STORY)
    shutil.copytree(tmp_path / "a/net", tmp_path / "copy")
    return tmp_path / "a/net"


def _series(run: Path) -> set[str]:
    return {str(row["backbone"]) for row in longshot.Results(run).summary()}


def test_spellings_of_one_folder_are_one_series(
    run_cli: Any, beds: Path, net: Path, fresh_cache: Path
) -> None:
    root = net.parents[1]
    spellings = ["a/net", "./a/net", str(net), "a/net/network.safetensors", "copy"]
    command = ["evaluate", beds / "fixed.parquet", "--method", "protonet", "-o", root / "run"]
    backbones = [word for name in spellings for word in ("--backbone", name)]
    done = run_cli(*command, *backbones, "--dataset", _dataset(beds), cwd=root)
    assert _series(root / "run") == {"a/net"}
    assert "'./a/net' is the same network as 'a/net': it is one series, called 'a/net'" in done.stderr
    assert len(list(fresh_cache.glob("features/*.npy"))) == 1


def test_a_later_call_with_another_spelling_adds_no_series(
    run_cli: Any, beds: Path, net: Path, fresh_cache: Path
) -> None:
    root = net.parents[1]
    command = ["evaluate", beds / "fixed.parquet", "--method", "protonet", "--dataset", _dataset(beds)]
    run_cli(*command, "--backbone", "a/net", "-o", root / "run", cwd=root)
    done = run_cli(*command, "--backbone", net, "--method", "ridge", "-o", root / "run", cwd=root)
    assert "is the network that this run calls 'a/net'" in done.stderr
    assert _series(root / "run") == {"a/net"}
    run = json.loads((root / "run/run.json").read_text(encoding="utf-8"))
    assert run["networks"] == {load_backbone(str(net)).identity: {"label": "a/net"}}
    assert len(run["cells"]) == 2


def test_a_label_names_the_series(run_cli: Any, beds: Path, net: Path, fresh_cache: Path) -> None:
    root = net.parents[1]
    command = ["evaluate", beds / "fixed.parquet", "--method", "protonet", "--dataset", _dataset(beds)]
    labels = ["--backbone", "mine=a/net", "--backbone", "theirs=other", "--backbone", "side=pixels + other"]
    run_cli(*command, *labels, "-o", root / "run", cwd=root)
    assert _series(root / "run") == {"mine", "theirs", "side"}


def _dataset(beds: Path) -> str:
    bed = longshot.Testbed.load(beds / "fixed.parquet")
    (name,) = bed.datasets
    return f"{name}={beds.parent / name}"


def test_a_label_means_one_network_in_a_run(
    beds: Path, net: Path, dataset: longshot.Dataset, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "methods": "protonet",
        "datasets": {dataset.name: dataset},
        "out": tmp_path / "run",
    }
    longshot.evaluate(beds / "fixed.parquet", backbones={"mine": str(net)}, **options)
    with pytest.raises(UserError, match="already holds results of another network called 'mine'"):
        longshot.evaluate(
            beds / "fixed.parquet", backbones={"mine": str(net.parents[1] / "other")}, **options
        )


def test_one_label_for_two_networks_is_refused(net: Path) -> None:
    with pytest.raises(UserError, match="Two different networks are both called 'mine'"):
        open_backbones([f"mine={net}", f"mine={net.parents[1] / 'other'}"], "cpu")


def test_two_labels_for_one_network_are_refused(net: Path) -> None:
    with pytest.raises(UserError, match="'a' and 'b' are one and the same network; give it once"):
        open_backbones({"a": str(net), "b": str(net.parents[1] / "copy")}, "cpu")


def test_features_and_their_network_are_one_series(dataset: longshot.Dataset, net: Path) -> None:
    features = longshot.embed(dataset, str(net), device="cpu")
    with pytest.raises(UserError, match="is given by name and as features"):
        open_backbones([str(net.parents[1] / "copy"), features], "cpu")


@pytest.mark.parametrize("change", [{"preprocessing": "decode|resize(12,12)"}, {}])
def test_preprocessing_is_part_of_a_network(net: Path, change: dict[str, str]) -> None:
    same = load_backbone(str(net)).identity == load_backbone(str(net.parents[1] / "copy"), **change).identity  # type: ignore[arg-type]
    assert same == (not change)


def test_features_by_name_follow_a_testbed_by_name(dataset: longshot.Dataset) -> None:
    bed = longshot.sample(dataset, tasks=3, way=3, shot=1, query=2, identity="names")
    results = longshot.evaluate(bed, backbones="pixels", methods="protonet", datasets={dataset.name: dataset})
    (facts,) = results.run["backbones"]["pixels"].values()
    assert facts["networks"][0]["images"] == "names"
