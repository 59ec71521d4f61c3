"""Models that are fitted, shipped, asked, extended, altered and exported, on small noisy pictures of plain colours."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import longshot
from longshot.base import UserError
from longshot.deploy import Classifier
from longshot.deploy.model_card import SCRIPT
from plain_pictures import picture


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_saved_model_answers_as_the_one_that_was_fitted(world: Path) -> None:
    fitted = longshot.fit(world / "photos", references=world / "refs.json", backbone="pixels")
    opened = Classifier.open(world / "model")
    photos = sorted((world / "photos" / "red").iterdir())[:5]
    assert np.array_equal(fitted.predict(photos).probabilities, opened.predict(photos).probabilities)


def test_answers_are_those_of_the_method_on_the_same_vectors(world: Path) -> None:
    """The closed form of the head against the method itself, through evaluation's own batches."""
    import torch

    from longshot.deploy.heads import one_task, shippable

    model = Classifier.open(world / "model")
    features = longshot.embed(world / "photos", "pixels", dtype="float32")
    data = longshot.open_dataset(world / "photos")
    batch = one_task(model.head.support, model.head.label, 5, torch.from_numpy(np.array(features.array)))
    scores = shippable("simpleshot").scores(batch)[0]
    expected = model.head.certainty.probabilities(scores).numpy()
    assert np.abs(model.predict(data).probabilities - expected).max() < 1e-3
    assert (model.predict(data).probabilities.argmax(1) == expected.argmax(1)).all()


@pytest.mark.parametrize(
    "name",
    [
        "model.json",
        "head.safetensors",
        "references.json",
        "network.onnx",
        "card.md",
        "card.html",
        "manifest.json",
    ],
)
def test_one_changed_byte_is_named(copy: Path, name: str) -> None:
    content = bytearray((copy / name).read_bytes())
    position = content.rindex(b"0") if name == "manifest.json" else len(content) // 2
    content[position] ^= 1
    (copy / name).write_bytes(bytes(content))
    with pytest.raises(UserError, match=re.escape(name)):
        Classifier.open(copy)


def test_a_model_of_another_version_is_told_so(copy: Path) -> None:
    text = (copy / "manifest.json").read_text().replace('"format": 1', '"format": 2')
    (copy / "manifest.json").write_text(text)
    with pytest.raises(UserError, match=r"manifest.json.*format"):
        Classifier.open(copy)


def test_a_network_of_other_weights_is_refused(copy: Path) -> None:
    """A model that names its network opens with no other one of that name."""
    from longshot.deploy.model_folder import read_files, write_model

    files = read_files(copy)
    del files["network.onnx"]
    facts = json.loads(files["model.json"])
    facts["network"]["weights_hash"] = "another"
    write_model(copy, {**files, "model.json": json.dumps(facts).encode()})
    with pytest.raises(UserError, match="was fitted with 'pixels' of the weights another"):
        Classifier.open(copy)


def test_references_that_changed_are_named(world: Path, tmp_path: Path) -> None:
    shutil.copytree(world / "photos", tmp_path / "photos")
    key = json.loads((world / "refs.json").read_text())["references"][0]["key"]
    Image.new("RGB", (9, 9)).save(tmp_path / "photos" / key)
    with pytest.raises(UserError, match=rf"'photos' lacks 1 reference of 15 as chosen \('{key}'\)"):
        longshot.fit(tmp_path / "photos", references=world / "refs.json", backbone="pixels")


def test_unreadable_photos_are_one_sentence_each_and_the_others_are_answered(
    world: Path, tmp_path: Path, run_cli: Run
) -> None:
    shutil.copy(world / "photos" / "red" / "3.png", tmp_path / "good.png")
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    (tmp_path / "notes.txt").write_text("no photo")
    done = run_cli("predict", world / "model", tmp_path, "-o", tmp_path / "out.jsonl")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("note:")] == [
        f"note: 1 file of other kinds in {tmp_path} was ignored (.txt 1).",
        f"note: {tmp_path}/bad.jpg cannot be read: it is no image that Pillow knows, whatever its name says.",
    ]
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {Path(row["photo"]).name: row["nearest_class"] for row in rows} == {
        "good.png": "red",
        "bad.jpg": None,
    }


def test_a_folder_a_zip_and_pictures_give_the_same_answers(world: Path, tmp_path: Path) -> None:
    model = Classifier.open(world / "model")
    archive = shutil.make_archive(str(tmp_path / "photos"), "zip", world / "photos")
    data = longshot.open_dataset(world / "photos")
    in_memory = model.predict([data.image(row) for row in range(len(data))])
    for answers in (model.predict(world / "photos"), model.predict(archive)):
        by_name = dict(
            zip(
                (name.replace("photos.zip", "photos").rpartition("photos/")[2] for name in answers.photos),
                answers.probabilities,
                strict=True,
            )
        )
        expected = [by_name[key] for key in data.keys.to_pylist()]
        assert np.abs(np.array(expected) - in_memory.probabilities).max() < 1e-6


def test_every_format_holds_the_same_rows(world: Path, tmp_path: Path) -> None:
    answers = longshot.predict(world / "model", world / "photos" / "teal")
    for ending in ("csv", "jsonl", "parquet", "html"):
        answers.save(tmp_path / f"a.{ending}")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert rows == answers.rows() == pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 1 + len(rows)
    assert (tmp_path / "a.html").read_text().count("<figure") == len(rows)


def test_a_class_is_added_and_removed_without_retraining(world: Path) -> None:
    model, generator = Classifier.open(world / "model"), np.random.default_rng(1)
    before = model.predict(world / "photos").probabilities
    model.add("yellow", [picture((230, 220, 20), generator) for _ in range(3)])
    answer = model.predict(picture((230, 220, 20), generator))
    assert answer.rows()[0]["nearest_class"] == "yellow" and model.facts.version == 2
    model.remove("yellow")
    assert np.abs(model.predict(world / "photos").probabilities - before).max() < 1e-4
    with pytest.raises(UserError, match="'pink' cannot be removed from 5 classes: it is none of them"):
        model.remove("pink")
    with pytest.raises(UserError, match="is a reference already"):
        model.add("red", world / "photos" / model.references[0].key)


def test_the_script_of_the_card_runs_without_longshot(world: Path, tmp_path: Path, run_cli: Run) -> None:
    """ONNX Runtime, NumPy and Pillow alone give the same class and probability, to 1e-4."""
    done = run_cli("export", world / "model", "--onnx", tmp_path / "classifier.onnx")
    assert done.returncode == 0, done.stderr
    script = re.search(r"```python\n(.*?)```", (world / "model" / "card.md").read_text(), re.DOTALL)
    assert script is not None and script[1] == SCRIPT and len(SCRIPT.splitlines()) <= 16
    (tmp_path / "run.py").write_text(
        "import sys\nsys.modules['longshot'] = sys.modules['torch'] = None\n" + script[1]
    )
    photos = sorted(world.glob("photos/*/1*.png"))
    ran = subprocess.run([sys.executable, "run.py", *photos], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    answers = longshot.predict(world / "model", photos)
    for line, row in zip(ran.stdout.splitlines(), answers.rows(), strict=True):
        _, name, probability = line.split("\t")
        assert name == row["class"] and abs(float(probability) - row["probability"]) <= 1e-4


@pytest.mark.parametrize(
    "text",
    [
        "decode|resize(64,bicubic)|central_crop(56)",
        "decode|resize(60)|central_crop(56,even)",
        "decode|resize(40,72)",
        "decode|resize(32,32)|grayscale",
    ],
)
def test_the_exported_resize_is_pillows_to_the_last_bit(text: str) -> None:
    import onnxruntime
    import torch

    from longshot.base import parse_preprocessing
    from longshot.deploy.onnx_file import Geometry, _graph

    transform, generator = parse_preprocessing(text), np.random.default_rng(0)
    axes = {"pixels": {0: "height", 1: "width"}}
    graph = _graph(Geometry(transform), torch.zeros(8, 9, 3, dtype=torch.uint8), ["pixels"], ["sized"], axes)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    for height, width in ((91, 120), (20, 70), (64, 64)):
        image = Image.fromarray(generator.integers(0, 256, (height, width, 3), np.uint8))
        sized = session.run(None, {"pixels": np.asarray(image)})[0][0]
        assert np.array_equal(sized, transform.pixels(image)), (height, width)


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("tim", "looks at all photos of a question together"),
        ("finetune-all", "has a setting to choose"),
        ("maml(steps=1, lr=0.1)", "adapts the network anew to every question"),
    ],
)
def test_methods_that_cannot_be_shipped_say_why(
    world: Path, network: str, method: str, sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        longshot.fit(world / "photos", references=world / "refs.json", backbone=network, method=method)


@pytest.mark.parametrize(
    "method", ["finetune-all(lr=0.001, steps=2)", "md-transfer(steps=2)", "bit(steps=2)"]
)
def test_an_adapted_network_is_shipped(world: Path, network: str, tmp_path: Path, method: str) -> None:
    """The opened folder, and the exported file, answer as the method itself does on the same references."""
    import onnxruntime
    import torch

    from longshot.base import ImageTask
    from longshot.deploy.heads import shippable
    from longshot.models import adaptable, prepare_fixed_norms, read_pixels

    references = world / "refs.json"
    longshot.fit(
        world / "photos", references=references, backbone=network, method=method, out=tmp_path / "model"
    )
    model = Classifier.open(tmp_path / "model")
    data = longshot.open_dataset(world / "photos")
    source = adaptable(network, method, "cpu")
    module = source.network().cpu()
    prepare_fixed_norms(module)
    keys = data.keys.to_pylist()
    rows = [*(keys.index(each.key) for each in model.references), 0, 20, 40, 60]
    pixels = np.stack([read_pixels(data.store, source.transform, row) for row in rows])
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1
    task = ImageTask(images[:-4], model.head.label, images[-4:], 5, seed=0)
    with torch.no_grad():
        scores = shippable(method).scores([task], module)[0]
    expected = model.head.certainty.probabilities(scores).numpy()
    answers = model.predict([data.image(row) for row in rows[-4:]])
    assert np.abs(answers.probabilities - expected).max() < 1e-3
    session = onnxruntime.InferenceSession(model.export(tmp_path / "one.onnx"))
    shipped = [session.run(None, {"pixels": np.asarray(data.image(row))})[0] for row in rows[-4:]]
    assert np.abs(np.stack(shipped) - answers.probabilities).max() < 1e-4
    with pytest.raises(UserError, match="adapted the network to its classes"):
        model.add("red", world / "photos" / "red" / "9.png")


def test_a_model_is_checked_itself(world: Path, tmp_path: Path, run_cli: Run) -> None:
    """Its accuracy is counted by hand from its own answers to the photos that did not choose its references."""
    done = run_cli(
        "check",
        world / "model",
        "--need",
        "0.999",
        "--tasks",
        "5",
        "-o",
        tmp_path / "out",
        "--json",
        check=False,
    )
    record = json.loads(done.stdout)
    data, digests = longshot.open_dataset(world / "photos"), Classifier.open(world / "model").seen
    seen = {path for path in data.keys.to_pylist() if sha256_of(world / "photos" / path) in digests}
    assert len(digests) == len(seen) and len(data) / 2 < len(seen) < len(data)
    card = Classifier.open(world / "model").facts.card  # few are left, so references serve too
    assert card.photos == len(data) - len(seen) + 15 and "left out in 4 parts" in card.evidence
    assert [rate for rate, _ in card.accepted][:2] == [0.05, 0.01] and card.fair_ece is not None
    answers = longshot.predict(world / "model", data).rows()
    right = [
        row["nearest_class"] == row["photo"].partition("/")[0] for row in answers if row["photo"] not in seen
    ]
    assert record["measured"][0]["accuracy"]["mean"] == pytest.approx(np.mean(right))
    assert done.returncode == {"passed": 0, "failed": 1, "undecided": 3}[record["verdict"]]
    assert (tmp_path / "out" / "check.html").is_file()


def test_the_estimator_passes_scikit_learns_checks() -> None:
    from sklearn.utils.estimator_checks import check_estimator

    outcomes: list[dict[str, Any]] = check_estimator(longshot.FewShotClassifier(), on_skip=None, on_fail=None)
    assert [each["check_name"] for each in outcomes if each["status"] == "failed"] == []
    assert len(outcomes) > 40


def test_the_estimator_says_that_it_needs_scikit_learn() -> None:
    code = "import sys; sys.modules['sklearn'] = None; import longshot; longshot.FewShotClassifier"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "FewShotClassifier is an estimator of scikit-learn, which is not installed" in done.stderr
