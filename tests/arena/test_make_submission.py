"""Methods and networks written out as submissions: what is packed, what is refused, and that they predict the same."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from longshot.arena import make_submission
from longshot.arena.competition_data import CompetitionData
from longshot.arena.inside.feed import images as as_images
from longshot.arena.solver import Solver
from longshot.arena.submission_check import unpack
from longshot.base import UserError, task_seeds
from longshot.data import open_dataset
from longshot.evaluation import evaluate
from longshot.models import get_network, save_checkpoint
from longshot.tasks import AnyShape, sample

PREPROCESSING = "decode|resize(16,16)|normalize(imagenet)"
OWN = """\
import torch
from longshot.models.methods.base import Method, mask_absent
from near import distances


class Nearest(Method):
    name, setting, family, paper = "nearest", "inductive", "own", ""

    def __init__(self, *, power: float = 2.0) -> None:
        self.power = power

    def scores(self, batch):
        return mask_absent(-distances(batch.query, batch.class_means()) ** self.power, batch)
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved network that was trained (as far as its sidecar knows) for Matching Networks."""
    made = get_network("cnn4(width=4)", size=(16, 16), seed=3)
    story = {"preprocessing": PREPROCESSING, "training": {"algorithm": "matching"}}
    return save_checkpoint(tmp_path_factory.mktemp("net"), made, story)


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset in which nothing tells the classes apart: predictions follow every detail of the computation."""
    path = tmp_path_factory.mktemp("noise") / "noise.npz"
    pixels = np.random.default_rng(8).integers(0, 256, (40, 20, 20, 3))
    np.savez(path, images=pixels.astype(np.uint8), labels=np.repeat(np.arange(4), 10))
    return path


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A method of the user's own with a neighbour that it imports."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "model.py").write_text(OWN)  # a name that the submission has too
    (folder / "near.py").write_text("import torch\n\ndistances = torch.cdist\n")
    (folder / "net.py").write_text("import torch\n\n\ndef make():\n    return torch.nn.Flatten()\n")
    (folder / "unused.py").write_text("raise SystemExit\n")
    return folder / "model.py"


def predictions(folder: Path, data: Path, tasks: int = 4) -> tuple[list[list[int]], list[list[int]]]:
    """Predictions of a submission's solver, and of 'longshot evaluate' with the same method, on the same tasks."""
    dataset = open_dataset(data)
    shape = AnyShape(min_way=2, max_way=4, min_shot=1, max_shot=3, query=4)
    testbed = sample(dataset, tasks=tasks, shape=shape, seed=5)
    described = json.loads((folder / "settings.json").read_text().replace("{here}", str(folder)))
    out = folder.parent / f"{folder.name}-run"
    run = evaluate(
        testbed,
        backbones=" + ".join(described["backbones"]),
        methods=described["method"],
        datasets={dataset.name: dataset},
        out=out,
        device="cpu",
    )
    direct = [list(row) for row in run.table().sort_by("task")["prediction"].to_pylist()]
    solver = Solver(folder)
    solver.load("")
    bound = testbed.bind(dataset.name, dataset.keys, dataset.fingerprint)
    pixels = np.stack([np.asarray(dataset.store.read(row).convert("RGB")) for row in range(len(dataset))])
    through = []
    for position, seed in enumerate(task_seeds(0, bound.tasks).tolist()):
        torch.manual_seed(seed)
        support, labels = bound.support.row(position), bound.support_label.row(position)
        fitted = solver.fit(
            as_images(pixels[support]),
            torch.from_numpy(np.asarray(labels, np.int64)),
            int(bound.ways[position]),
        )
        through.append(fitted.predict(as_images(pixels[bound.query.row(position)])).tolist())
    return through, direct


@pytest.mark.parametrize(
    ("method", "backbone"),
    [
        ("protonet", "pixels"),
        ("tim(steps=5)", "{network}"),
        ("sur(steps=3)", "pixels + {network}"),
        ("finetune-all(steps=3, lr=0.01)", "{network}"),
        ("{own}:Nearest(power=1.0)", "{network}"),
        ("protonet", "{network}(size=24)"),
        ("protonet", "torch:{own.parent}/net.py:make(preprocessing='decode|resize(6,6)')"),
    ],
)
def test_a_submission_predicts_what_evaluate_predicts(method, backbone, network, own, noise, tmp_path):
    folder = tmp_path / "submission"
    made = make_submission(method.format(own=own), folder, backbone=backbone.format(network=network, own=own))
    through, direct = predictions(folder, noise)
    assert through == direct
    assert len({label for row in direct for label in row}) > 1
    assert str(tmp_path) not in (folder / "settings.json").read_text() + made.title


@pytest.mark.usefixtures("needs_sandbox")
def test_in_the_sandbox_it_answers_as_outside(run_cli, competition, network, tmp_path):
    packed, tried = tmp_path / "net.zip", tmp_path / "tried"
    run_cli("compete", "make-submission", network, packed)
    done = run_cli("compete", "run", competition.folder, packed, "-o", tried)
    assert done.stdout.startswith("normalised accuracy")
    answers = [json.loads(line)["predicted"] for line in (tried / "answers.jsonl").read_text().splitlines()]
    solver = Solver(unpack(packed, tmp_path / "code"))
    solver.load("")
    data, phase = CompetitionData(competition), competition.phases[0]
    for task, answer in zip(data.test_tasks(phase, 1), answers, strict=True):
        torch.manual_seed(task.seed)
        pixels = data.pixels(task.dataset)
        fitted = solver.fit(as_images(pixels[task.support]), torch.from_numpy(task.support_label), task.ways)
        assert fitted.predict(as_images(pixels[task.query])).tolist() == answer


@pytest.mark.usefixtures("needs_sandbox")
@pytest.mark.parametrize(
    ("method", "algorithm", "data"),
    [("protonet", "protonet", "task"), pytest.param("ridge", "multiclass", "batch", marks=pytest.mark.long)],
)
def test_a_network_is_trained_in_meta_fit(run_cli, competition, tmp_path, method, algorithm, data):
    folder = tmp_path / "made"
    settings = ["steps=3", "batch=2", "size=16"]
    options = [word for setting in settings for word in ("--set", setting)]
    made = ("--train", algorithm, "--backbone", "cnn4(width=4)", "--league", "meta-learning", *options)
    run_cli("compete", "make-submission", method, folder, *made)
    config = json.loads((folder / "config.json").read_text())
    assert config["train_data_format"] == data
    if data == "task":  # the small competition's classes have 8 images
        config["train_config"] |= {"N": 2, "query_images_per_class": 4}
        (folder / "config.json").write_text(json.dumps(config))
    run_cli("compete", "submit", competition.folder, folder, "--team", "a", "--league", "meta-learning")
    assert "submission 1, seed 1: scored" in run_cli("compete", "work", competition.folder).stdout
    log = (competition.folder / "submissions" / "000001" / "seed-1" / "printed.txt").read_text()
    assert [line.partition(":")[0] for line in log.splitlines()] == ["step 1 of 3", "step 3 of 3"]


def test_a_network_takes_the_method_it_was_trained_for(network, tmp_path):
    made = make_submission(str(network), tmp_path / "net")
    described = json.loads((tmp_path / "net" / "settings.json").read_text())
    assert described["method"] == "matching"
    assert described["backbones"] == ["{here}/network-0/network.safetensors"]
    assert made.weights == (str(network),)


def test_own_code_goes_with_what_it_imports(own, tmp_path):
    made = make_submission(
        f"{own}:Nearest", tmp_path / "mine.zip", backbone="pixels", settings={"power": 3.0}
    )
    with zipfile.ZipFile(made.path) as archive:
        names = set(archive.namelist())
        described = json.loads(archive.read("settings.json"))
    assert names == {"model.py", "settings.json", "metadata", "own/model.py", "own/near.py"}
    assert described["method"] == "{here}/own/model.py:Nearest(power=3.0)"
    assert made.weights == ()


@pytest.mark.parametrize(
    ("method_or_network", "options", "reason"),
    [
        ("protonet", {}, "needs a network to look through"),
        ("protonett", {"backbone": "pixels"}, "did you mean 'protonet'"),
        ("protonet", {"backbone": "pixels", "settings": {"speed": 1}}, "has no setting 'speed'"),
        ("finetune-all(lr=0.1)", {"backbone": "pixels"}, "gives features only"),
        ("protonet", {"backbone": "timm:resnet18"}, "downloaded weights, which the sandbox has not got"),
        ("protonet", {"backbone": "nowhere/net.safetensors"}, "There is no saved network"),
        ("pixels", {"backbone": "pixels"}, "is a network already"),
        ("protonet", {"backbone": "efficientnet-lite0", "league": "meta-learning"}, "has learned weights"),
        ("protonet", {"train": "autoensemble"}, "looks at its whole dataset"),
        ("protonet", {"train": "metadelta"}, "chooses among its networks on validation tasks"),
        ("protonet", {"train": "protonet", "backbone": "efficientnet-lite0"}, "Only Longshot's own networks"),
        (
            "protonet",
            {"train": "protonet", "settings": {"speed": 1}},
            "The training of a submission has no setting 'speed'; the settings are steps, batch",
        ),
        (
            "protonet",
            {"train": "protonet", "settings": {"steps": 0}},
            "steps = 0, but it must be a whole number above 0",
        ),
        ("finetune-all", {"backbone": "efficientnet-lite0"}, "chooses a setting on validation classes"),
    ],
)
def test_what_cannot_be_a_submission(method_or_network, options, reason, tmp_path):
    with pytest.raises(UserError, match=reason):
        make_submission(method_or_network, tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "kept").mkdir()
    with pytest.raises(UserError, match="is there already"):
        make_submission("protonet", tmp_path / "kept", backbone="pixels")
