"""The command: real files from real images."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from longshot.data import open_dataset
from longshot.tasks import Split


def test_a_split_at_a_divergence(photos: Path, tmp_path: Path, run_cli: Callable) -> None:  # type: ignore[type-arg]
    out = tmp_path / "split.json"
    done = run_cli("split", photos, "--backbone", "pixels", "--divergence", "0.64", "-o", out)
    split = Split.load(out)
    assert split.sizes == {"train": 6, "validation": 1, "test": 1}
    assert split.made["divergence"] == pytest.approx(0.64)
    assert split.apply(open_dataset(photos)).splits == split.parts
    assert "principal@0.64" in done.stdout
    assert str(out) in done.stdout


def test_a_split_like_others_stands_beside_them(photos: Path, tmp_path: Path, run_cli: Callable) -> None:  # type: ignore[type-arg]
    out = tmp_path / "split.json"
    options = ("--backbone", "pixels", "--ratios", "0.5,0,0.5", "--way", "2", "--shot", "3")
    done = run_cli("split", photos, *options, "--like", "random", "-o", out)
    made = Split.load(out).made
    learnt = made["target"]["learnt_accuracy"]
    assert made["hardness"]["learnt_accuracy"]["mean"] == pytest.approx(learnt, abs=0.03)
    assert [record["split"] for record in made["references"]] == ["random × 20", "semantic × 20"]
    assert "Accuracy in % of 2-way 3-shot tasks of the test classes" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["like", "random", "×", "20"] in [line[:4] for line in lines]
    assert f"{100 * learnt:.1f} % learnt wanted" in done.stdout
    shown = run_cli("splits", "show", out).stdout
    assert "random × 20" in shown and "learnt wanted" in shown
    advice = f"certify-split DATASET --set also=[{out}] -o FOLDER' trains some"
    assert all("uncertified: a linear map" in text and advice in text for text in (done.stdout, shown))


def test_a_sweep_writes_a_file_for_each_divergence(photos: Path, tmp_path: Path, run_cli: Callable) -> None:  # type: ignore[type-arg]
    options = ("--backbone", "pixels", "--mode", "paper", "--ratios", "0.5,0.25,0.25")
    done = run_cli("split", photos, *options, "--sweep", "0.04,0.96", "-o", tmp_path / "a.json", "--json")
    rows = json.loads(done.stdout)
    assert [Path(row["path"]).name for row in rows] == ["a-0.04.json", "a-0.96.json"]
    for row, divergence in zip(rows, (0.04, 0.96), strict=True):
        made = Split.load(row["path"]).made
        assert made["divergence"] == pytest.approx(divergence, rel=0.01)
        assert row["sizes"] == {"train": 4, "validation": 2, "test": 2}


def test_features_from_a_file(photos: Path, tmp_path: Path, run_cli: Callable) -> None:  # type: ignore[type-arg]
    run_cli("embed", photos, "--backbone", "pixels", "-o", tmp_path / "f.npy")
    for name, option in (("a", ("--features", tmp_path / "f.npy")), ("b", ("--backbone", "pixels"))):
        run_cli("split", photos, *option, "--divergence", "0.3", "-o", tmp_path / f"{name}.json")
    assert Split.load(tmp_path / "a.json").parts == Split.load(tmp_path / "b.json").parts


def test_random_and_semantic(photos: Path, tmp_path: Path, run_cli: Callable) -> None:  # type: ignore[type-arg]
    run_cli("split", photos, "--random", "--seed", "3", "-o", tmp_path / "r.json")
    assert Split.load(tmp_path / "r.json").name == "random(seed=3)"
    run_cli("split", photos, "--semantic", "--ratios", "0.5,0,0.5", "-o", tmp_path / "s.json")
    homes = [{c.split("/")[0] for c in part} for part in Split.load(tmp_path / "s.json").parts.values()]
    assert sorted(map(len, homes)) == [0, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--divergence", "0.3"), "give one of --backbone NAME"),
        (("--backbone", "pixels"), "One kind of split is needed, but none was given"),
        (("--random", "--semantic"), "--random and --semantic were given"),
        (("--backbone", "pixels", "--harder-than", "random"), "give --by 15"),
        (("--random", "--mode", "paper"), "--mode belongs to --divergence and --sweep, not to --random"),
        (("--backbone", "pixels", "--sweep", "0.1,high"), "is not a list of numbers"),
        (("--backbone", "pixels", "--sweep", "0.1,0.10"), "names a divergence twice"),
        (("--semantic",), "has 2 super-classes at the parents of its classes; a semantic split needs 3"),
    ],
)
def test_a_mistake_is_one_sentence(
    photos: Path,
    tmp_path: Path,
    run_cli: Callable,
    options: tuple[str, ...],
    message: str,  # type: ignore[type-arg]
) -> None:
    done = run_cli("split", photos, *options, "-o", tmp_path / "split.json", check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_file_name_nothing_is_computed(photos: Path, run_cli: Callable) -> None:  # type: ignore[type-arg]
    done = run_cli("split", photos, "--random", check=False)
    assert done.returncode == 2
    assert "name one with -o split.json" in done.stderr


def test_a_split_file_carries_the_content_of_the_dataset(photos: Path, tmp_path: Path) -> None:
    from longshot.data import content_digest, image_digests, open_dataset
    from longshot.tasks import Split, make_split

    make_split(photos, random=True, out=tmp_path / "a.json")
    dataset = open_dataset(photos)
    assert Split.load(tmp_path / "a.json").content == content_digest(dataset.keys, image_digests(dataset))
    make_split(photos, random=True, out=tmp_path / "b.json", identity="names")
    split = Split.load(tmp_path / "b.json")
    assert split.content == "" and split.made["identity"] == "names"
