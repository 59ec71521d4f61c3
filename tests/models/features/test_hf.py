"""``hf:``: vectors against transformers itself, weights that are missing, pixels against the library's processors."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from longshot.base import UserError, parse_preprocessing
from longshot.models import ModuleBackbone, embed, load_backbone
from longshot.models.backbones.sight import as_string, processor_string

transformers: Any = pytest.importorskip("transformers")
SIZE = 32
PLAIN = f"decode|resize({SIZE},{SIZE})|normalize(0.5,0.5)"
_SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "image_size": SIZE,
    "patch_size": 8,
}
_DINO = {key: value for key, value in _SMALL.items() if key != "intermediate_size"}
_TEXT = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "vocab_size": 9,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
_TWO = {"text_config": _TEXT, "vision_config": _SMALL, "projection_dim": 12}
_MASKED = {"use_mask_token": True, "use_mean_pooling": True, "vocab_size": 9}
_STAGES = {"hidden_sizes": [8, 16], "depths": [1, 1]}
# saved class → its configuration and settings, what auto means, the width of the vector
MODELS: dict[str, tuple[str, dict[str, Any], str, int]] = {
    "ViTModel": ("ViTConfig", _SMALL, "pooler", 16),
    "ViTForImageClassification": ("ViTConfig", _SMALL, "cls", 16),
    "DeiTForImageClassification": ("DeiTConfig", _SMALL, "cls", 16),
    "BeitForMaskedImageModeling": ("BeitConfig", {**_SMALL, **_MASKED}, "pooler", 16),
    "Data2VecVisionForImageClassification": ("Data2VecVisionConfig", _SMALL, "pooler", 16),
    "Dinov2Model": ("Dinov2Config", _DINO, "pooler", 16),
    "DINOv3ViTModel": ("DINOv3ViTConfig", {**_SMALL, "num_register_tokens": 2}, "pooler", 16),
    "ViTMSNModel": ("ViTMSNConfig", _SMALL, "cls", 16),
    "ViTMAEModel": ("ViTMAEConfig", _SMALL, "cls", 16),
    "CLIPModel": ("CLIPConfig", _TWO, "projection", 12),
    "CLIPVisionModelWithProjection": ("CLIPVisionConfig", {**_SMALL, "projection_dim": 12}, "projection", 12),
    "CLIPForImageClassification": ("CLIPConfig", _TWO, "pooler", 16),
    "SiglipModel": ("SiglipConfig", {"text_config": _TEXT, "vision_config": _SMALL}, "pooler", 16),
    "ConvNextForImageClassification": ("ConvNextConfig", {**_STAGES, "num_stages": 2}, "pooler", 16),
    "ResNetForImageClassification": (
        "ResNetConfig",
        {**_STAGES, "embedding_size": 8, "layer_type": "basic"},
        "pooler",
        16,
    ),
    "BitModel": ("BitConfig", {**_STAGES, "embedding_size": 8, "num_groups": 4}, "pooler", 16),
}
SaveModel = Callable[[str], tuple[Path, Any]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> SaveModel:
    """``saved(CLASS)``: the folder of a small model with random weights, and the model itself."""
    root = tmp_path_factory.mktemp("hf")
    made: dict[str, tuple[Path, Any]] = {}

    def save(kind: str) -> tuple[Path, Any]:
        if kind not in made:
            config, settings, _, _ = MODELS[kind]
            torch.manual_seed(0)
            model = getattr(transformers, kind)(getattr(transformers, config)(**settings)).eval()
            for parameter in model.parameters():  # zeros and ones would hide what takes part
                torch.nn.init.normal_(parameter, 0.1, 0.3)
            model.save_pretrained(root / kind)
            made[kind] = root / kind, model
        return made[kind]

    return save


def load(folder: Path, settings: str = "", preprocessing: str | None = PLAIN) -> ModuleBackbone:
    backbone = load_backbone(f"hf:{folder}{settings}", "cpu", preprocessing=preprocessing)
    assert isinstance(backbone, ModuleBackbone)
    return backbone


def images(count: int = 2, size: int = SIZE) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", MODELS)
def test_two_loads_of_every_class_give_equal_vectors(kind: str, saved: SaveModel) -> None:
    folder, _ = saved(kind)
    torch.manual_seed(1)
    first = load(folder)
    torch.manual_seed(2)  # what a load invents, it invents from here
    again = load(folder)
    assert first.pooling == MODELS[kind][2]
    assert first(images()).shape == (2, MODELS[kind][3]) and first.dim == MODELS[kind][3]
    assert torch.equal(first(images()), again(images()))
    assert first.identity == again.identity
    state, other = first.module.state_dict(), again.module.state_dict()
    assert all(torch.equal(state[key], other[key]) for key in state)


def vectors(model: Any, **settings: Any) -> Any:
    with torch.inference_mode():
        return model(pixel_values=images(), **settings)


def test_vectors_are_those_of_transformers(saved: SaveModel) -> None:
    """Each pool against the saved model itself, which has all its weights."""
    with torch.inference_mode():
        folder, model = saved("ViTForImageClassification")
        tokens = vectors(model.vit).last_hidden_state
        expected = {"cls": tokens[:, 0], "mean": tokens[:, 1:].mean(1)}
        assert all(torch.allclose(load(folder, f"(pool={p})")(images()), e) for p, e in expected.items())
        folder, model = saved("ViTModel")
        assert torch.allclose(load(folder)(images()), vectors(model).pooler_output)
        folder, model = saved("DeiTForImageClassification")  # two tokens before the patches
        mean = vectors(model.deit).last_hidden_state[:, 2:].mean(1)
        assert torch.allclose(load(folder, "(pool=mean)")(images()), mean)
        folder, model = saved("DINOv3ViTModel")  # three
        mean = vectors(model).last_hidden_state[:, 3:].mean(1)
        assert torch.allclose(load(folder, "(pool='mean')")(images()), mean)
        for kind in ("CLIPModel", "CLIPVisionModelWithProjection"):
            folder, model = saved(kind)
            features = model.get_image_features(images()) if kind == "CLIPModel" else model(images())
            features = (
                getattr(features, "pooler_output", None) if kind == "CLIPModel" else features.image_embeds
            )
            assert torch.allclose(load(folder)(images()), features, atol=1e-6)
        folder, model = saved("SiglipModel")
        assert torch.allclose(load(folder)(images()), vectors(model.vision_model).pooler_output, atol=1e-6)
        folder, model = saved("ResNetForImageClassification")
        assert torch.allclose(
            load(folder)(images()), vectors(model.resnet).pooler_output[..., 0, 0], atol=1e-6
        )


def test_beit_without_its_pooler_is_the_papers(saved: SaveModel) -> None:
    """LayerNorm(1, 0) of the mean of the patches; the norm that was trained is dropped."""
    folder, model = saved("BeitForMaskedImageModeling")
    states = vectors(model, output_hidden_states=True).hidden_states
    expected = torch.nn.functional.layer_norm(
        states[-1][:, 1:].mean(1), (16,), eps=model.config.layer_norm_eps
    )
    assert torch.allclose(load(folder)(images()), expected, atol=1e-5)


def test_layers_are_counted_from_the_end(saved: SaveModel) -> None:
    folder, model = saved("ViTForImageClassification")
    states = vectors(model.vit, output_hidden_states=True).hidden_states
    assert torch.allclose(load(folder, "(layer=-2)")(images()), states[-2][:, 0])
    assert torch.allclose(load(folder, "(layer=-2, pool=mean)")(images()), states[-2][:, 1:].mean(1))
    assert load(folder, "(layer=-2)").pooling == "cls of layer -2"
    assert load(folder, "(layer=-2)").identity != load(folder).identity
    assert load(folder, "(pool='cls')").identity == load(folder).identity  # which is what auto means here


@pytest.mark.parametrize(
    ("kind", "settings", "complaint"),
    [
        (
            "ViTForImageClassification",
            "(pool=pooler)",
            r"needs 2 weights that its file has not \('pooler.dense.bias', 'pooler.dense.weight'\).*choose pool=cls",
        ),
        (
            "CLIPForImageClassification",
            "(pool=projection)",
            r"'visual_projection.weight'.*choose pool=pooler",
        ),
        ("SiglipModel", "(pool=cls)", "has no pool=cls; it has pooler, mean"),
        ("ViTModel", "(pool=projection)", "has no pool=projection; it has pooler, cls, mean"),
        ("ViTModel", "(pool=first)", "has no pool 'first'; choose 'auto' or 'cls'"),
        ("ViTModel", "(layer=-9)", "layer is -9, but the network has 3 states"),
        ("ViTModel", "(layer=2)", "layers are counted from the end"),
        ("ViTModel", "(layer=-2, pool=pooler)", "pool=pooler follows the last layer"),
        (
            "ViTModel",
            "(pol=cls)",
            "has no setting 'pol'; its settings and their defaults: pool='auto', layer=-1",
        ),
    ],
)
def test_pools_that_there_are_not(kind: str, settings: str, complaint: str, saved: SaveModel) -> None:
    with pytest.raises(UserError, match=complaint):
        load(saved(kind)[0], settings)


@pytest.fixture
def copy(saved: SaveModel, tmp_path: Path) -> Callable[..., Path]:
    """``copy(CLASS, add=…, drop=…)``: a model's folder with tensors added to and taken from its file."""

    def make(kind: str, *, add: dict[str, torch.Tensor] | None = None, drop: str = " ") -> Path:
        from safetensors.torch import load_file, save_file

        folder = Path(shutil.copytree(saved(kind)[0], tmp_path / "copy"))
        tensors = load_file(folder / "model.safetensors")
        tensors = {key: value for key, value in tensors.items() if drop not in key} | (add or {})
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return make


def test_missing_weights_are_named(copy: Callable[..., Path]) -> None:
    with pytest.raises(
        UserError, match=r"pool=mean needs 1 weight that its file has not \('layers.*get the whole"
    ):
        load(copy("ViTForImageClassification", drop="layer.1.attention.attention.query.bias"))


def test_missing_statistics_are_named(copy: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match=r"lacks the statistics 'embedder.*running_mean'"):
        load(copy("ResNetForImageClassification", drop="embedder.embedder.normalization.running_mean"))


def test_weights_without_a_place_are_named(copy: Callable[..., Path]) -> None:
    extra = {"vit.encoder.layer.2.output.dense.weight": torch.zeros(16, 16)}
    with pytest.raises(
        UserError, match=r"has 1 weight inside the network .*layer.*2.*get both files from one"
    ):
        load(copy("ViTForImageClassification", add=extra))


def test_weights_of_another_shape_are_named(copy: Callable[..., Path]) -> None:
    other = {"vit.embeddings.cls_token": torch.zeros(1, 1, 8)}
    with pytest.raises(UserError, match=r"cls_token \[1, 1, 8\] instead of \[1, 1, 16\]"):
        load(copy("ViTForImageClassification", add=other))


def test_a_pickle_of_tensors_is_read(saved: SaveModel, tmp_path: Path) -> None:
    folder, model = saved("ViTModel")
    shutil.copytree(folder, tmp_path / "bin", ignore=shutil.ignore_patterns("*.safetensors"))
    torch.save(model.state_dict(), tmp_path / "bin" / "pytorch_model.bin")
    assert torch.equal(load(tmp_path / "bin")(images()), load(folder)(images()))


def test_a_pickle_of_anything_else_is_refused(saved: SaveModel, tmp_path: Path) -> None:
    folder, _ = saved("ViTModel")
    shutil.copytree(folder, tmp_path / "bin", ignore=shutil.ignore_patterns("*.safetensors"))

    class Harmful:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "ran"),)

    (tmp_path / "bin" / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": Harmful()}))
    with pytest.raises(UserError, match="cannot be loaded"):
        load(tmp_path / "bin")
    assert not (tmp_path / "ran").exists()


def test_positions_stretch_to_other_sizes(saved: SaveModel) -> None:
    """A network of 32 pixels on images of 48, as transformers itself does it."""
    folder, model = saved("ViTForImageClassification")
    backbone = load(folder, "(pool=mean)", "decode|resize(48,48)")
    with torch.inference_mode():
        tokens = model.vit(pixel_values=images(size=48), interpolate_pos_encoding=True).last_hidden_state
    assert torch.allclose(backbone(images(size=48)), tokens[:, 1:].mean(1), atol=1e-6)


def test_a_folder_whose_name_looks_like_settings(saved: SaveModel, tmp_path: Path) -> None:
    folder = tmp_path / "vit(pool=cls)"
    shutil.copytree(saved("ViTModel")[0], folder)
    assert load(folder).pooling == "pooler"


def test_nothing_is_downloaded_unasked() -> None:
    with pytest.raises(UserError, match="downloads nothing unasked; add allow_download=True"):
        load_backbone("hf:nobody/no-such-model")


def test_a_folder_without_weights(saved: SaveModel, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"lacks config\.json or weights"):
        load(tmp_path)
    shutil.copy(saved("ViTModel")[0] / "model.safetensors", tmp_path)
    with pytest.raises(UserError, match=r"lacks 'config\.json'; copy the whole folder"):
        load(tmp_path)


def test_a_model_of_text_is_refused(tmp_path: Path) -> None:
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    transformers.BertModel(transformers.BertConfig(vocab_size=9, **small)).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="cannot take an image of 32 × 32"):
        load(tmp_path)


def test_embedding_a_dataset_by_the_models_own_processor(
    saved: SaveModel, tmp_path: Path, photos: Path, fresh_cache: Path
) -> None:
    folder = Path(shutil.copytree(saved("ViTForImageClassification")[0], tmp_path / "vit"))
    with pytest.raises(UserError, match=r"has no preprocessor_config.json.*or give preprocessing"):
        load(folder, preprocessing=None)
    transformers.ViTImageProcessorPil(size={"height": SIZE, "width": SIZE}).save_pretrained(folder)
    features = embed(photos, f"hf:{folder}(pool=mean)", device="cpu")
    assert features.array.shape == (240, 16)
    assert features.preprocessing == f"decode|resize({SIZE},{SIZE})|normalize(0.5,0.5,0.5,0.5,0.5,0.5)"


# Eight published models: the class of the processor and what their preprocessor_config.json says beyond its defaults.
PROCESSORS: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("ViTImageProcessorPil", {}),
    "dino": (
        "ViTImageProcessorPil",
        {"resample": 3, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]},
    ),
    "deit": ("DeiTImageProcessorPil", {}),
    "beit": ("BeitImageProcessorPil", {}),
    "clip": ("CLIPImageProcessorPil", {}),
    "dinov2": ("BitImageProcessorPil", {"size": {"shortest_edge": 256}}),
    "convnext": ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 224}, "crop_pct": 0.875}),
    "siglip": ("SiglipImageProcessorPil", {}),
}
SIZES = [(h, w) for h in (37, 150, 225, 341, 500) for w in (41, 63, 120, 224, 255, 300, 333, 481)]


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in SIZES]


@pytest.mark.parametrize("model", PROCESSORS)
def test_pixels_equal_the_processors_bit_for_bit(model: str, pictures: list[Image.Image]) -> None:
    kind, settings = PROCESSORS[model]
    processor = getattr(transformers, kind)(**settings)
    transform = parse_preprocessing(as_string(processor.to_dict()))
    assert len(pictures) == 40
    for picture in pictures:
        expected = processor(images=picture, do_rescale=False, do_normalize=False)["pixel_values"][0]
        assert np.array_equal(transform.pixels(picture).transpose(2, 0, 1), expected), picture.size
    assert np.allclose(transform(pictures[7]), processor(images=pictures[7])["pixel_values"][0], atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 384}}),
        ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 60}, "crop_pct": 0.95}),
        ("CLIPImageProcessorPil", {"size": {"shortest_edge": 60}, "crop_size": {"height": 71, "width": 64}}),
        ("ViTImageProcessorPil", {"resample": 1, "do_normalize": False}),
        ("ViTImageProcessorPil", {"resample": 4, "rescale_factor": 1 / 127.5}),
        ("BitImageProcessorPil", {"do_rescale": False, "image_mean": [1.0, 2.0, 3.0]}),
    ],
)
def test_rarer_settings_follow_their_processor(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    """``processor_string`` compares with the processor itself, so returning is the proof."""
    getattr(transformers, kind)(**settings).save_pretrained(tmp_path)
    assert processor_string("hf:some", tmp_path).startswith("decode|resize(")


def test_files_of_older_versions(tmp_path: Path) -> None:
    old = {"feature_extractor_type": "ViTFeatureExtractor", "size": 224, "resample": 3, "do_normalize": True}
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps(old | {"image_mean": [0.5] * 3, "image_std": [0.5] * 3})
    )
    assert processor_string("hf:some", tmp_path).startswith("decode|resize(224,224,bicubic)|normalize(0.5,")


def test_dinov3s_file_is_read_without_torchvision(tmp_path: Path) -> None:
    settings = {
        "image_processor_type": "DINOv3ViTImageProcessorFast",
        "size": {"height": 224, "width": 224},
        "resample": 2,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    }
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    assert processor_string("hf:some", tmp_path).startswith("decode|resize(224,224)|normalize(0.485,")


def test_a_processor_that_does_more_is_refused(tmp_path: Path) -> None:
    transformers.EfficientNetImageProcessorPil(rescale_offset=True, include_top=True).save_pretrained(
        tmp_path
    )
    with pytest.raises(
        UserError, match=r"its image processor does cannot be repeated here.*give preprocessing"
    ):
        processor_string("hf:some", tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("[]")
    with pytest.raises(UserError, match=r"cannot be repeated here.*give preprocessing"):
        processor_string("hf:some", tmp_path)
