"""Saved networks: bit-equal after a round trip, and one sentence for each way a file can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from longshot.base import UserError, hash_file
from longshot.models import (
    SIDECAR_FILE,
    WEIGHTS_FILE,
    convert_checkpoint,
    get_network,
    load_checkpoint,
    save_checkpoint,
)

PREPROCESSING = "decode|resize(16,16)|normalize(0.5,0.5)"
STORY = {
    "preprocessing": PREPROCESSING,
    "data": {"dataset": "toybox", "split": "train", "classes": ["a", "b"]},
    "training": {"call": "protonet", "seed": 3},
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    network = get_network("cnn4(width=8)", size=(16, 16), seed=4)
    network(torch.rand(8, 3, 16, 16))  # running statistics move
    return save_checkpoint(tmp_path / "run", network, STORY)


@pytest.mark.parametrize(
    "call",
    [
        "cnn4(width=8)",
        "cnn4(width=8, norm='group', flatten=True)",
        "vit(width=16, depth=1, heads=2)",
        "ensemble(of='cnn4(width=4)')",
    ],
)
def test_round_trip_is_bit_equal(tmp_path: Path, call: str) -> None:
    network = get_network(call, size=(16, 16), seed=1)
    network.extras["head_train"] = nn.Parameter(torch.rand(3, 4))
    network.extras["key"] = nn.Parameter(torch.rand(2, 4))
    images = torch.rand(4, 3, 16, 16)
    network(images)
    again, story = load_checkpoint(save_checkpoint(tmp_path / "run", network, STORY))
    with torch.no_grad():
        assert torch.equal(again(images), network.eval()(images))
    assert again.call == call or story["network"] == network.call
    assert torch.equal(again.extras["key"], network.extras["key"])
    assert "head_train" not in again.extras
    assert not again.training


def test_the_sidecar_tells_the_story(saved: Path) -> None:
    _, story = load_checkpoint(saved / WEIGHTS_FILE)
    assert story["network"] == "cnn4(width=8)"
    assert story["size"] == [16, 16]
    assert (story["dim"], story["parameters"]) == (8, 4 * (8 + 16) + 9 * 8 * (3 + 3 * 8))
    assert story["preprocessing"] == PREPROCESSING
    assert story["data"] == STORY["data"]
    assert story["training"] == STORY["training"]
    assert story["weights_hash"] == hash_file(saved / WEIGHTS_FILE)
    assert set(story["versions"]) == {"longshot", "torch"}


def test_another_architecture_is_named(saved: Path) -> None:
    sidecar = json.loads((saved / SIDECAR_FILE).read_text())
    for call, complaint in {
        "cnn4(width=4)": r"another architecture than 'cnn4\(width=4\)': of 28 tensors 24 of another shape "
        r"\('blocks\.0\.0\.weight \[8, 3, 3, 3\] instead of \[4, 3, 3, 3\]'",
        "vit": r"of \d+ tensors \d+ missing \('patches.weight', .* 28 unexpected \('blocks\.",
    }.items():
        (saved / SIDECAR_FILE).write_text(json.dumps({**sidecar, "network": call}))
        with pytest.raises(UserError, match=complaint):
            load_checkpoint(saved)


def test_weights_of_another_run_are_told(saved: Path, tmp_path: Path) -> None:
    other = save_checkpoint(tmp_path / "other", get_network("cnn4(width=8)", size=(16, 16), seed=9), STORY)
    (other / SIDECAR_FILE).replace(saved / SIDECAR_FILE)
    with pytest.raises(UserError, match=r"are not those that network\.json tells of"):
        load_checkpoint(saved)


@pytest.mark.parametrize("name", ["weights.pt", "weights.pth", "pytorch_model.bin"])
def test_a_pickle_is_refused_with_the_remedy(tmp_path: Path, name: str) -> None:
    torch.save({}, tmp_path / name)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(
            UserError, match=rf"{name} is a pickle.*import convert_checkpoint; convert_checkpoint\('"
        ):
            load_checkpoint(path)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_under_another_name_is_refused(saved: Path, zipped: bool) -> None:
    torch.save({"a": torch.zeros(2)}, saved / WEIGHTS_FILE, _use_new_zipfile_serialization=zipped)
    with pytest.raises(UserError, match="is a pickle, which could run code"):
        load_checkpoint(saved)


def test_a_truncated_file_is_told(saved: Path) -> None:
    data = (saved / WEIGHTS_FILE).read_bytes()
    (saved / WEIGHTS_FILE).write_bytes(data[: len(data) // 2])
    with pytest.raises(
        UserError, match=r"network.safetensors \([\d,]+ bytes\) are truncated or no safetensors"
    ):
        load_checkpoint(saved)


def test_a_missing_or_damaged_sidecar_is_told(saved: Path, tmp_path: Path) -> None:
    sidecar = json.loads((saved / SIDECAR_FILE).read_text())
    for text, complaint in {
        json.dumps({**sidecar, "format": 99}): "has format 99, this Longshot reads 1",
        json.dumps({**sidecar, "dim": "8"}): "has the setting dim = '8', but it must be a whole number",
        json.dumps({"format": 1}): "lacks network, dim, size, preprocessing, weights_hash",
        "{": "truncated or no JSON",
    }.items():
        (saved / SIDECAR_FILE).write_text(text)
        with pytest.raises(UserError, match=complaint):
            load_checkpoint(saved)
    (saved / SIDECAR_FILE).unlink()
    with pytest.raises(UserError, match=r"lack their sidecar network\.json"):
        load_checkpoint(saved)
    with pytest.raises(UserError, match=r"no saved network at .*nowhere"):
        load_checkpoint(tmp_path / "nowhere")


def test_convert_takes_a_state_dict(tmp_path: Path) -> None:
    network = get_network("cnn4(width=8)", size=(16, 16), seed=2)
    torch.save(network.state_dict(), tmp_path / "w.pt")
    again, _ = load_checkpoint(
        convert_checkpoint(tmp_path / "w.pt", tmp_path / "run", "cnn4(width=8)", PREPROCESSING)
    )
    images = torch.rand(2, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(again(images), network.eval()(images))
    with pytest.raises(UserError, match="another architecture than 'cnn4'"):
        convert_checkpoint(tmp_path / "w.pt", tmp_path / "run", "cnn4", PREPROCESSING)


def test_convert_runs_no_code(tmp_path: Path) -> None:
    torch.save(get_network("cnn4(width=8)", size=(16, 16)), tmp_path / "whole.pt")
    with pytest.raises(UserError, match=r"cannot be read as a dictionary of tensors.*state_dict\(\)"):
        convert_checkpoint(tmp_path / "whole.pt", tmp_path / "run", "cnn4(width=8)", PREPROCESSING)
    torch.save({"epoch": 3, "weights": {}}, tmp_path / "more.pt")
    with pytest.raises(UserError, match="holds more than tensors"):
        convert_checkpoint(tmp_path / "more.pt", tmp_path / "run", "cnn4(width=8)", PREPROCESSING)
