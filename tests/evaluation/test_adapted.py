"""Methods that see images and the network, in the same runs and tables as those on features."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

import longshot
from longshot.base import ImageTask, UserError
from longshot.evaluation import Results, read_run
from longshot.evaluation.dispatch import validation_tasks
from longshot.evaluation.run_record import add_entry, write_run
from longshot.models import FinetuneAll, ImageMethod, Network

NETWORK = """
import torch
from torch import nn

def tiny():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3, 2, 1), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    net.preprocessing = "decode|resize(20,20)|normalize(0.5,0.25)"
    return net
"""
QUICK = "finetune-all(lr=0.001, steps=2)"
FROZEN = "protonet(distance='cosine')"


@pytest.fixture(scope="module")
def album(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> longshot.Dataset:
    """The photos with class splits: 4 classes to test, 2 to validate."""
    folder = tmp_path_factory.mktemp("split") / "album"
    shutil.copytree(photos, folder)
    classes = longshot.open_dataset(folder).class_ids
    splits = {"train": classes[:2], "validation": classes[2:4], "test": classes[4:]}
    (folder / "split.json").write_text(json.dumps(splits))
    return longshot.open_dataset(folder)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("network") / "net.py"
    path.write_text(NETWORK)
    return f"torch:{path}:tiny"


@pytest.fixture(scope="module")
def bed(album: longshot.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten tasks of two shapes."""
    path = tmp_path_factory.mktemp("beds") / "tests.parquet"
    small, large = (
        longshot.sample(album, tasks=5, shape=longshot.FixedShape(way, 2, 3), split="test", seed=way)
        for way in (2, 3)
    )
    longshot.Testbed.concat([small, large]).save(path)
    return path


Run = Callable[..., Results]


@pytest.fixture
def evaluate(bed: Path, backbone: str, album: longshot.Dataset) -> Run:
    def run(methods: Any, out: Path, **other: Any) -> Results:
        options = {"backbones": backbone, "device": "cpu", "datasets": {album.name: album}, **other}
        return longshot.evaluate(options.pop("testbeds", bed), methods=methods, out=out, **options)

    return run


def parts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*.parquet"))}


class Counting(FinetuneAll):
    """The prototype classifier, which counts the tasks it is scored for."""

    scored = 0

    def __init__(self) -> None:
        super().__init__(steps=0)

    @property
    def settings(self) -> dict[str, object]:
        return {}

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        type(self).scored += len(tasks)
        return super().scores(tasks, network)


def test_both_kinds_of_methods_share_one_table(evaluate: Run, tmp_path: Path) -> None:
    results = evaluate([FROZEN, "finetune-all(steps=0)", QUICK], tmp_path / "run")
    table = results.table()
    assert table.num_rows == 30 and table["seconds"].null_count == 0
    rows = {method: [r for r in table.to_pylist() if r["method"] == method] for method in (FROZEN, QUICK)}
    for frozen, adapted in zip(rows[FROZEN], rows[QUICK], strict=True):
        same = ("testbed", "task", "backbone", "seed", "dataset", "way", "mean_shot", "coarsity")
        assert [frozen[name] for name in same] == [adapted[name] for name in same]
    assert [s["method"] for s in results.summary()] == [FROZEN, "finetune-all(steps=0)", QUICK]


def test_without_steps_predictions_are_the_prototype_classifiers(evaluate: Run, tmp_path: Path) -> None:
    """Images through the network give what the cached features give."""
    results = evaluate([FROZEN, "finetune-all(steps=0)"], tmp_path / "run")
    rows = results.table().to_pylist()
    for adapted, frozen in zip(rows[:10], rows[10:], strict=True):
        assert adapted["loss"] == pytest.approx(frozen["loss"], abs=5e-3)
        assert adapted["accuracy"] == pytest.approx(
            frozen["accuracy"], abs=1 / 6 + 1e-6
        )  # a tie may fall either way


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_do_not_change_a_byte(evaluate: Run, tmp_path: Path, workers: int) -> None:
    methods = [QUICK, "train-from-scratch(steps=3)"]
    for name, count in (("one", 1), ("some", workers)):
        evaluate(methods, tmp_path / name, workers=count)
    assert parts(tmp_path / "one") == parts(tmp_path / "some")


def test_only_the_missing_part_is_computed_anew(
    evaluate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counting, "scored", 0)
    results = evaluate(Counting(), tmp_path / "run", workers=1)
    assert Counting.scored == 10
    before = parts(tmp_path / "run")
    assert len(before) == 3  # units of four tasks
    (tmp_path / "run" / f"part-{results.run['cells'][0]['units'][1]}.parquet").unlink()
    evaluate(Counting(), tmp_path / "run", workers=1)
    assert Counting.scored == 14
    assert parts(tmp_path / "run") == before


def test_tasks_of_equal_shape_come_together(evaluate: Run, tmp_path: Path) -> None:
    seen: list[list[tuple[int, int, int]]] = []

    class Together(Counting):
        at_once = 3

        def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
            seen.append([(t.way, len(t.support), len(t.query)) for t in tasks])
            return super().scores(tasks, network)

    together = evaluate(Together(), tmp_path / "together", workers=1)
    alone = evaluate(Counting(), tmp_path / "alone", workers=1)
    assert all(len(set(shapes)) == 1 for shapes in seen)
    assert max(map(len, seen)) == 3
    assert together.table()["prediction"].to_pylist() == alone.table()["prediction"].to_pylist()


def test_scores_are_kept_on_request(evaluate: Run, tmp_path: Path) -> None:
    for row in evaluate(QUICK, tmp_path / "run", save_scores=True).table().to_pylist():
        assert np.array(row["scores"]).reshape(-1, row["way"]).argmax(1).tolist() == row["prediction"]


def test_run_json_tells_the_network_and_no_features_are_made(
    evaluate: Run, tmp_path: Path, fresh_cache: Path, album: longshot.Dataset
) -> None:
    run = evaluate(QUICK, tmp_path / "run").run
    [network] = run["backbones"][next(iter(run["backbones"]))][album.fingerprint]["networks"]
    assert network["preprocessing"] == "decode|resize(20,20)|normalize(0.5,0.25)"
    assert run["methods"][QUICK]["kind"] == "adapted"
    assert not list(fresh_cache.glob("features/**/*.npy"))


class Choosy(Counting):
    """Picks between a good and a useless candidate."""

    name = "choosy"
    validation = 4
    tried: ClassVar[list[float]] = []

    def __init__(self, *, worth: float | None = None) -> None:
        super().__init__()
        self.worth = worth

    @property
    def settings(self) -> dict[str, object]:
        return {"worth": self.worth}

    def candidates(self) -> Sequence[ImageMethod]:
        return () if self.worth is not None else [Choosy(worth=worth) for worth in (0.0, 1.0, -1.0)]

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        assert self.worth is not None
        self.tried.append(self.worth)
        return [scores * self.worth for scores in super().scores(tasks, network)]


class TestChoices:
    def test_the_best_candidate_is_used_and_told(self, evaluate: Run, tmp_path: Path) -> None:
        results = evaluate(Choosy(), tmp_path / "run")
        [choice] = results.run["choices"].values()
        assert choice["chosen"] == "choosy(worth=1.0)"
        assert choice["split"] == "validation"
        assert {len(values) for values in choice["measured"].values()} == {4}
        chosen = evaluate(Choosy(worth=1.0), tmp_path / "given")
        assert results.table()["loss"].to_pylist() == chosen.table()["loss"].to_pylist()
        assert set(results.table()["method"].to_pylist()) == {"choosy"}

    def test_a_choice_is_made_once_and_goes_on_where_it_was(
        self, evaluate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "run"
        evaluate(Choosy(), folder, workers=1)
        story, before = read_run(folder), parts(folder)
        [choice] = story["choices"].values()
        choice_before = json.loads(json.dumps(choice))
        choice["measured"]["choosy(worth=-1.0)"][2] = None  # as after a kill in the middle of choosing
        choice["chosen"] = None
        write_run(folder, story)
        for path in folder.glob("part-*"):
            path.unlink()
        monkeypatch.setattr(Choosy, "tried", [])
        again = evaluate(Choosy(), folder, workers=1)
        assert Choosy.tried == [-1.0] + [1.0] * 10  # the one that was missing, then the tasks themselves
        assert list(again.run["choices"].values()) == [choice_before]
        assert parts(folder) == before

    def test_a_candidate_that_breaks_down_is_not_chosen(self, evaluate: Run, tmp_path: Path) -> None:
        class Explodes(Choosy):
            def candidates(self) -> Sequence[ImageMethod]:
                return () if self.worth else [Choosy(worth=float("nan")), Choosy(worth=1.0)]

        results = evaluate(Explodes(), tmp_path / "run")
        assert next(iter(results.run["choices"].values()))["chosen"] == "choosy(worth=1.0)"

    def test_validation_tasks_have_other_classes_and_the_same_shapes(
        self, album: longshot.Dataset, bed: Path
    ) -> None:
        like = longshot.Testbed.load(bed).bind(album.name, album.keys, album.fingerprint)
        made = validation_tasks(album, "validation", like, 5)
        again = validation_tasks(album, "validation", like, 5)
        allowed = set(album.split_classes("validation").tolist())
        for task in range(5):
            support, query = made.support.row(task), made.query.row(task)
            assert set(album.labels[support].tolist()) <= allowed
            assert not set(support.tolist()) & set(query.tolist())
            labels = made.support_label.row(task)
            for label in range(int(made.ways[task])):  # a label is one class, in support and query
                rows = [*support[labels == label], *query[made.query_label.row(task) == label]]
                assert len(set(album.labels[rows].tolist())) == 1
            assert support.tolist() == again.support.row(task).tolist()
        assert made.ways.tolist() == [2, 2, 2, 2, 2]  # three ways are more than the two classes there are
        assert made.support.lengths.tolist() == [4] * 5

    def test_a_dataset_without_splits_is_told_what_to_give(
        self, beds: Path, backbone: str, dataset: longshot.Dataset, tmp_path: Path
    ) -> None:
        with pytest.raises(UserError, match=r"neither validation nor train .* finetune-all\(lr=0\.001\)"):
            longshot.evaluate(
                beds / "fixed.parquet", backbones=backbone, methods="finetune-all", out=tmp_path / "run"
            )
        assert not (tmp_path / "run").exists()


class TestExtending:
    def test_a_folder_from_before_kinds_were_noted(self, evaluate: Run, tmp_path: Path) -> None:
        folder = tmp_path / "run"
        evaluate(FROZEN, folder)
        story = read_run(folder)
        for facts in story["methods"].values():
            del facts["kind"]
        write_run(folder, story)
        run = evaluate([FROZEN, QUICK], folder).run
        assert [run["methods"][method]["kind"] for method in (FROZEN, QUICK)] == ["frozen", "adapted"]

    def test_features_after_images_and_images_after_features(self, evaluate: Run, tmp_path: Path) -> None:
        for name, order in (("a", (QUICK, FROZEN)), ("b", (FROZEN, QUICK))):
            for method in order:
                results = evaluate(method, tmp_path / name)
            assert {s["method"] for s in results.summary()} == {QUICK, FROZEN}

    def test_other_weights_under_the_same_name_are_refused(
        self, bed: Path, album: longshot.Dataset, tmp_path: Path
    ) -> None:
        path = tmp_path / "net.py"
        options = {
            "backbones": f"torch:{path}:tiny",
            "out": tmp_path / "run",
            "datasets": {album.name: album},
        }
        path.write_text(NETWORK)
        longshot.evaluate(bed, methods=FROZEN, **options)  # type: ignore[arg-type]
        path.write_text(NETWORK.replace("nn.ReLU()", "nn.Tanh()"))
        with pytest.raises(UserError, match=r"already holds results of another network called 'torch:"):
            longshot.evaluate(bed, methods=QUICK, **options)  # type: ignore[arg-type]

    def test_facts_that_both_know_must_agree(self) -> None:
        entries = {"x": {"a": 1, "list": [{"b": 2}]}}
        add_entry(entries, "x", {"c": 3, "list": [{"d": 4}]}, "x")
        assert entries["x"] == {"a": 1, "c": 3, "list": [{"b": 2, "d": 4}]}
        with pytest.raises(UserError, match="another list"):
            add_entry(entries, "x", {"list": [{"b": 5}]}, "x")


class TestMistakes:
    def test_features_alone(self, evaluate: Run, tmp_path: Path, album: longshot.Dataset) -> None:
        features = longshot.embed(album, "pixels", device="cpu")
        with pytest.raises(UserError, match=r"finetune-all.* only features of 'pixels' were given"):
            evaluate(QUICK, tmp_path / "run", backbones=features, datasets=None)
        assert not (tmp_path / "run").exists()

    def test_a_backbone_without_a_network(self, evaluate: Run, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="'pixels' gives features only"):
            evaluate(QUICK, tmp_path / "run", backbones="pixels")

    def test_two_networks_side_by_side(self, evaluate: Run, backbone: str, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"adapts one network, but .* is 2 side by side"):
            evaluate(QUICK, tmp_path / "run", backbones=f"{backbone} + pixels")

    def test_scores_that_are_nan_name_the_task(self, evaluate: Run, tmp_path: Path) -> None:
        class Broken(Counting):
            def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
                return [scores * float("nan") for scores in super().scores(tasks, network)]

        with pytest.raises(UserError, match=r"NaN or infinite scores for task 0 .* learning rate"):
            evaluate(Broken(), tmp_path / "run", workers=1)

    def test_a_network_that_fails_is_no_traceback(self, evaluate: Run, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="puts its parameters into the linear layers"):
            evaluate("lora", tmp_path / "run")


OWN = """
import torch
from longshot.models.methods.base import ImageMethod

class Nearest(ImageMethod):
    name, setting = "nearest", "inductive"

    def __init__(self, *, power: float = 1.0) -> None:
        self.power = power

    def scores(self, tasks, network):
        found = []
        for task in tasks:
            means = torch.stack([network(task.support[task.support_label == c]).mean(0) for c in range(task.way)])
            found.append(-self.power * torch.cdist(network(task.query), means))
        return found

    def flops_per_task(self, way, support, query, forward):
        return forward * (support + query)
"""


class TestOwn:
    def test_a_class_in_a_file(self, evaluate: Run, tmp_path: Path) -> None:
        path = tmp_path / "mine.py"
        path.write_text(OWN)
        results = evaluate([f"{path}:Nearest(power=2.0)", "protonet"], tmp_path / "run")
        own, protonet = results.summary()
        assert own["method"] == f"{path}:Nearest(power=2.0)"
        assert own["accuracy"] == pytest.approx(protonet["accuracy"], abs=0.05)

    def test_its_mistakes_are_told_with_their_line(self, evaluate: Run, tmp_path: Path) -> None:
        path = tmp_path / "mine.py"
        path.write_text(OWN.replace("torch.cdist", "torch.cdost"))
        with pytest.raises(
            UserError, match=r"Nearest failed on task \d+: AttributeError(.|\n)*mine\.py, line"
        ):
            evaluate(f"{path}:Nearest", tmp_path / "run", workers=1)


def test_dry_run_tells_the_cost_of_a_task(
    run_cli: Any, bed: Path, backbone: str, album: longshot.Dataset, tmp_path: Path
) -> None:
    command = [
        "evaluate",
        bed,
        "--backbone",
        backbone,
        "--method",
        QUICK,
        "-o",
        tmp_path / "run",
        "--dry-run",
    ]
    command += ["--dataset", f"{album.name}={album.source}"]
    [record] = json.loads(run_cli(*command, "--json").stdout)
    assert record["left"] == 10
    assert 0 < record["per_task"] <= record["seconds"]
    assert not (tmp_path / "run").exists()


def test_the_command_lists_what_needs_images(run_cli: Any) -> None:
    listed = {entry["name"]: entry for entry in json.loads(run_cli("methods", "--json").stdout)}
    assert (listed["finetune-all"]["needs"], listed["protonet"]["needs"]) == ("images", "features")
    assert (listed["maml"]["kind"], listed["lora"]["kind"]) == ("meta-trained", "adapted")


def test_one_torch_thread_is_used_and_put_back(evaluate: Run, tmp_path: Path) -> None:
    seen: list[int] = []

    class Watching(Counting):
        def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
            seen.append(torch.get_num_threads())
            return super().scores(tasks, network)

    before = torch.get_num_threads()
    evaluate(Watching(), tmp_path / "run")
    assert set(seen) == {1}
    assert torch.get_num_threads() == before


def test_the_image_sources_pixels_are_the_datasets(
    album: longshot.Dataset, backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoded once or read one by one: the same images, preprocessed as the backbone says."""
    from longshot.evaluation import compute as image_source
    from longshot.models import adaptable

    made = adaptable(backbone, "m", "cpu")
    rows = np.array([3, 100, 7])
    all_images = image_source.ImageSource(made, album)._images(rows)
    monkeypatch.setattr(image_source, "_DECODE_ALL", 0)
    single = image_source.ImageSource(made, album)._images(rows)
    expected = torch.stack([torch.from_numpy(made.transform(album.image(int(row)))) for row in rows])
    assert torch.equal(all_images, single)
    assert torch.allclose(all_images, expected, atol=1e-5)


def test_only_images_of_the_tasks_are_read(
    album: longshot.Dataset, bed: Path, backbone: str, evaluate: Run, tmp_path: Path
) -> None:
    """A damaged image that no task uses does not stop an adapted method, and the results are the same."""
    folder = tmp_path / album.name
    shutil.copytree(album.source, folder)
    spare = album.keys[0].as_py()  # of a train class; the tasks are of test classes
    (folder / spare).write_bytes(b"no picture")
    damaged = longshot.open_dataset(folder)
    first = evaluate(QUICK, tmp_path / "first")
    again = evaluate(QUICK, tmp_path / "again", datasets={album.name: damaged})
    assert first.table()["prediction"].equals(again.table()["prediction"])
