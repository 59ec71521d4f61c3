"""What run.json says about what a network saw in training, and what its accuracy is without it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import longshot
from longshot.base import Ragged
from longshot.evaluation import Results, judges_in, leaks_in
from longshot.evaluation.provenance import unleaked_accuracy
from longshot.evaluation.views import say_judges
from longshot.models import get_network, save_checkpoint, training_stages
from longshot.tasks import Testbed

TRAINED = ("round/crimson", "round/gold", "square/teal")
SMALL: dict[str, Any] = {"network": "cnn4(width=4)", "size": 16, "steps": 2, "validation_tasks": 2}
CALL = "protonet(way=2, shot=1, query=2)"


@pytest.fixture(scope="module")
def world(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, trained on some of the photos; and a folder of renamed copies of those, beside other photos."""
    root = tmp_path_factory.mktemp("leaks")
    for number, name in enumerate(TRAINED):
        shutil.copytree(photos / name, root / "train" / name)
        shutil.copytree(photos / name, root / "test" / f"kind-{number}")
    for number, name in enumerate(("round/olive", "square/navy", "square/sienna")):
        shutil.copytree(photos / name, root / "test" / f"kind-{10 + number}")
    longshot.train(CALL, root / "train", split="all", holdout=0, out=root / "net", **SMALL)
    longshot.sample(root / "test", tasks=30, way=3, shot=1, query=4, seed=4).save(root / "bed.parquet")
    return root


def _evaluate(world: Path, *backbones: str, **options: Any) -> Results:
    return longshot.evaluate(world / "bed.parquet", backbones=list(backbones), methods="protonet", **options)


def _leaked(testbed: Testbed, part: str) -> list[list[bool]]:
    return [[int(key[5:].partition("/")[0]) < 10 for key in getattr(task, part)] for task in testbed]


def test_renamed_copies_are_found_and_left_out_of_the_accuracy(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = str(world / "net")
    results = _evaluate(world, name)
    testbed = Testbed.load(world / "bed.parquet")
    ((key, leak),) = leaks_in(results.run).items()
    assert key == (testbed.content_hash, name) and leak.mark == "‡"
    images = {image for task in testbed for image in (*task.support, *task.query)}
    seen = sum(int(image[5:].partition("/")[0]) < 10 for image in images)
    assert (
        f"was trained on {seen} of the {len(images)} images of 'bed' (train: {seen} the same file)"
        in leak.fact
    )
    assert "on 3 of its 6 classes" in leak.fact
    assert f"warning: {leak.fact}." in capsys.readouterr().err
    # with and without, counted by hand from the rows
    rows = results.table()
    right = [
        np.equal(p, task.query_label) for p, task in zip(rows["prediction"].to_pylist(), testbed, strict=True)
    ]
    unseen = [~np.array(flags) for flags in _leaked(testbed, "query")]
    shares = [float(r[u].mean()) for r, u in zip(right, unseen, strict=True) if u.any()]
    support, query = (_leaked(testbed, part) for part in ("support", "query"))
    touched = [any(s) or any(q) for s, q in zip(support, query, strict=True)]
    clean = [float(r.mean()) for r, t in zip(right, touched, strict=True) if not t]
    unleaked = results.run["cells"][0]["unleaked"]
    assert unleaked["queries"]["mean"] == pytest.approx(np.mean(shares))
    assert (unleaked["queries"]["n"], unleaked["queries"]["of"]) == (
        sum(int(u.sum()) for u in unseen),
        30 * 12,
    )
    assert (unleaked["tasks"]["n"], unleaked["tasks"]["of"]) == (len(clean), 30)
    assert unleaked["tasks"]["mean"] == (pytest.approx(np.mean(clean)) if clean else None)
    assert unleaked["all"]["mean"] == pytest.approx(rows["accuracy"].to_numpy().mean())
    assert results.summary()[0]["unleaked"] == unleaked and results.summary()[0]["leak"] == leak.fact


def test_the_arithmetic_of_with_and_without() -> None:
    """Three tasks of two queries: the first has one seen query, the second a seen support image, the third nothing."""

    class Bed:
        def column(self, name: str) -> Ragged:
            return Ragged.from_lists([[0, 1], [0, 1], [0, 1]])

    rows = pa.table({"task": [0, 1, 2], "prediction": [[0, 0], [1, 1], [0, 1]]})
    support = Ragged.from_lengths(np.array([False, True, False]), np.array([1, 1, 1]))
    query = Ragged.from_lengths(np.array([True, False, False, False, False, False]), np.array([2, 2, 2]))
    unleaked = unleaked_accuracy(Bed(), support, query, rows)  # type: ignore[arg-type]
    assert (unleaked["all"]["mean"], unleaked["all"]["n"]) == (pytest.approx(2 / 3), 3)
    # task 0: of its unseen query nothing is right; task 1: half; task 2: all
    assert (unleaked["queries"]["mean"], unleaked["queries"]["n"], unleaked["queries"]["of"]) == (0.5, 5, 6)
    assert (unleaked["tasks"]["mean"], unleaked["tasks"]["n"], unleaked["tasks"]["of"]) == (1.0, 1, 3)
    everything = query.with_values(np.ones(6, np.bool_))
    nothing = unleaked_accuracy(Bed(), support, everything, rows)  # type: ignore[arg-type]
    assert nothing["queries"] == {"mean": None, "half": None, "n": 0, "of": 6}
    assert nothing["tasks"] == {"mean": None, "half": None, "n": 0, "of": 3}


def test_a_network_of_other_photos_is_clean(
    world: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(photos / "round" / "orange", world / "clean" / "unlike-any")
    shutil.copytree(photos / "square" / "purple", world / "clean" / "nor-this")
    longshot.train(CALL, world / "clean", split="all", holdout=0, out=world / "clean-net", **SMALL)
    name = str(world / "clean-net")
    results = _evaluate(world, name, "pixels")
    assert leaks_in(results.run) == {} and "warning" not in capsys.readouterr().err
    (entry,) = results.run["upstream"][name][Testbed.load(world / "bed.parquet").content_hash]
    assert (entry["how"], entry["images"], entry["classes"]) == ("content", 0, 0)
    assert "unleaked" not in results.run["cells"][0] and "pixels" not in results.run["upstream"]


def test_leaks_and_judges_are_inherited(world: Path, photos: Path) -> None:
    """A network that goes on from another has seen what that saw, and chose what that chose."""
    for number, name in enumerate(("round/orange", "square/purple")):
        shutil.copytree(photos / name, world / "other" / f"some-{number}")
    longshot.train(
        CALL, world / "other", start=world / "net", split="all", holdout=0, out=world / "child", steps=2,
        validation_tasks=2,
    )  # fmt: skip
    stages = training_stages(str(world / "child"))
    assert [stage.dataset for stage, _ in stages] == ["other", "train"]
    assert [len(seen.files) for _, seen in stages if seen is not None] == [60, 90]
    child = str(world / "child")
    (leak,) = leaks_in(_evaluate(world, child).run).values()
    assert leak.images and "(other, train: " in leak.fact
    hard = longshot.sample(
        world / "test", tasks=3, way=2, shot=1, query=2, instances="difficult", judge=str(world / "net")
    )
    judged = longshot.evaluate(hard, backbones=[child, str(world / "net"), "pixels"], methods="protonet")
    assert {backbone for _, backbone in judges_in(judged.run)} == {child, str(world / "net")}
    assert f"{child} (or what it started from)" in say_judges(judged.run)[0]


def test_published_weights_share_classes(photos: Path, tmp_path: Path, run_cli: Any) -> None:
    shutil.copytree(photos / "round" / "gold", tmp_path / "test" / "n02123045")
    shutil.copytree(photos / "round" / "olive", tmp_path / "test" / "some-gadget")
    longshot.sample(tmp_path / "test", tasks=2, way=2, shot=1, query=2).save(tmp_path / "bed.parquet")
    command = ("evaluate", tmp_path / "bed.parquet", "--backbone", "efficientnet-lite0(size=32)")
    done = run_cli(*command, "--method", "protonet", "-o", tmp_path / "run")
    assert " (‡)" in done.stdout and "warning" not in done.stderr
    assert (
        "(‡) 1 of the 2 classes of 'bed' are among the 1,000 that efficientnet-lite0(size=32) was trained on "
        "(ImageNet-1k); whether its images are among those of ImageNet-1k is not known"
    ) in " ".join(done.stdout.split())


def test_several_networks_side_by_side_are_one_series(world: Path) -> None:
    plain = save_checkpoint(
        world / "plain",
        get_network("cnn4(width=4)", size=(16, 16)),
        {"preprocessing": "decode|resize(16,16)|value_range(0,1)"},
    )
    name = f"{plain} + {world / 'net'}"
    (leak,) = leaks_in(_evaluate(world, name).run).values()
    assert leak.images and "(unknown data, train: " in leak.fact


def test_features_at_hand_are_told_by_their_name(world: Path) -> None:
    """The images need not be there: a testbed knows the digests of its own."""
    features = longshot.embed(world / "test", str(world / "net"))
    results = longshot.evaluate(world / "bed.parquet", backbones=features, methods="protonet")
    (leak,) = leaks_in(results.run).values()
    assert leak.images > 0


def test_names_alone_leave_images_unknown(world: Path) -> None:
    """A testbed that vouches for names cannot tell renamed copies; that is "not known", not clean."""
    bed = longshot.sample(
        longshot.open_dataset(world / "test", identity="names"), tasks=3, way=3, shot=1, query=2
    )
    results = longshot.evaluate(
        bed, backbones=str(world / "net"), methods="protonet", datasets={"test": world / "test"}
    )
    (entry,) = next(iter(results.run["upstream"].values()))[bed.content_hash]
    assert (entry["images"], entry["how"], entry["not_known"]) == (None, "classes", ["train"])
