"""A judge of the published kind: a pre-trained ViT, meta-trained with ProtoNet, from any hf: network; all offline."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from longshot.base import UserError
from longshot.studies import get_study, layered, run_study

SMALL = (
    *(
        "tasks=4",
        "way=3",
        "shot=2",
        "query=3",
        "shapes=[fixed]",
        "methods=[protonet]",
        "adapted=[]",
        "split=all",
    ),
    *("backbones=[pixels]", "ablations=[]", "why=false"),
)


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny ViT of random weights as transformers saves it."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("hf") / "vit"
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.ViTConfig(image_size=16, patch_size=8, **size)
    transformers.ViTModel(config).save_pretrained(folder)
    processor = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "do_rescale": True,
        "do_normalize": True,
        "size": {"height": 16, "width": 16},
        "resample": 2,
        "rescale_factor": 1 / 255,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


@pytest.mark.long
def test_any_hf_network_becomes_the_judge_by_one_setting(vit: Path, photos: Path, tmp_path: Path) -> None:
    published = get_study("hard-md-judge").settings.plain()["networks"]["meta-trained"]
    network = {**published, "size": 16, "steps": 2, "split": "all", "holdout": 0.0, "validation_tasks": 2}
    changes = {"judge_start": f"hf:{vit}", "networks": {"meta-trained": network}}
    study = layered(layered(get_study("hard-md-judge"), None, SMALL), None, changes)
    out = tmp_path / "study"
    outcome = run_study(study, f"shots={photos}", out=out, workers=1)
    [folder] = (out / "trainings").iterdir()
    trained = json.loads((folder / "training.json").read_text())["settings"]
    assert "protonet" in str(trained) and "meta-dataset" in json.dumps(trained)
    assert any(f"chosen by meta-trained, meta-trained from hf:{vit}," in note for note in outcome.notes)
    rows = [record["backbone"] for record in outcome.tables[1].records]
    assert set(rows) == {"meta-trained", "pixels"}  # the judge is shown beside those that are ranked
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "meta-trained †" in page and "Trainings and their budgets" in page


def test_the_published_training_is_the_papers() -> None:
    settings = get_study("hard-md-judge").settings.plain()
    network = settings["networks"][settings["judge"]]
    assert network["algorithm"].startswith("protonet") and network["recipe"] == "pmf"
    assert (network["steps"], network["size"], network["shape"]) == (100_000, 128, "meta-dataset")


def test_a_start_without_a_training_is_refused() -> None:
    with pytest.raises(
        UserError,
        match=r"the judge 'efficientnet-lite0\(size=128\)' is none of the networks that the study trains",
    ):
        layered(get_study("hard-md"), None, ["judge_start=hf:some/vit"])


def test_classes_called_by_wordnet_ids_have_its_taxonomy(photos: Path, tmp_path: Path) -> None:
    from longshot.data import find_wordnet
    from longshot.studies.engine.presets import open_data
    from longshot.studies.hard_md.hard_md_plan import planned_beds

    try:
        find_wordnet()
    except UserError as error:
        pytest.skip(f"needs WordNet 3.0: {error}")
    for folder, noun in zip(
        sorted((photos / "round").iterdir()), ("n02084071", "n02121808", "n03001627"), strict=False
    ):
        shutil.copytree(folder, tmp_path / "nouns" / noun)
    study = get_study("hard-md")
    sources = open_data(study, f"nouns={tmp_path / 'nouns'}")
    taxonomy = sources["nouns"].taxonomy
    assert taxonomy is not None and "n02084071" in taxonomy
    names = planned_beds(study.settings, sources)  # type: ignore[arg-type]
    assert "nouns-difficult-fixed-semantic" in names
