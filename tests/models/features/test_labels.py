"""Labels of backbones: given before an equals sign, apart from what a backbone is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from longshot.models import embed, get_network, load_backbone, save_checkpoint, split_label


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mine=runs/proto", ("mine", "runs/proto")),
        ("my net = a + b", ("my net", "a + b")),
        ("runs/lr=0.1", (None, "runs/lr=0.1")),
        ("hf:some/model", (None, "hf:some/model")),
        ("torch:net.py:make", (None, "torch:net.py:make")),
        ("mine=torch:net.py:make", ("mine", "torch:net.py:make")),
        ("pixels", (None, "pixels")),
        ("pixels(size=8)", (None, "pixels(size=8)")),
        ("small=pixels(size=8)", ("small", "pixels(size=8)")),
    ],
)
def test_a_label_stands_before_an_equals_sign(text: str, expected: tuple[str | None, str]) -> None:
    assert split_label(text) == expected


def test_a_folder_with_an_equals_sign_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=0.1").mkdir()
    assert split_label("lr=0.1") == (None, "lr=0.1")


def test_a_label_changes_neither_identity_nor_features(photos: Path, fresh_cache: Path) -> None:
    assert load_backbone("mine=pixels").identity == load_backbone("pixels").identity
    features = embed(photos, "mine=pixels", preprocessing="decode|resize(2,2)")
    assert features.backbone == "mine"
    again = embed(photos, "pixels", preprocessing="decode|resize(2,2)")
    assert again.work.cached
    assert again.backbone == "pixels(preprocessing='decode|resize(2,2)')"


def test_a_copied_network_is_not_embedded_again(
    photos: Path,
    fresh_cache: Path,
    tmp_path: Path,
    run_cli,  # type: ignore[no-untyped-def]
) -> None:
    network = get_network("cnn4(width=4)", size=(16, 16))
    save_checkpoint(tmp_path / "a/net", network, {"preprocessing": "decode|resize(16,16)"})
    shutil.copytree(tmp_path / "a/net", tmp_path / "copy")
    spellings = ["a/net", "./a/net", str(tmp_path / "a/net"), "copy", "mine=copy"]
    backbones = [word for name in spellings for word in ("--backbone", name)]
    rows = json.loads(run_cli("embed", photos, *backbones, "--json", cwd=tmp_path).stdout)
    assert [row["cached"] for row in rows] == [False, True, True, True, True]
    assert len({row["backbone_identity"] for row in rows}) == 1
    assert [row["backbone"] for row in rows] == [*spellings[:4], "mine"]
