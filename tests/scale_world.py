"""A small world for every verb that runs on a cluster, and the bytes that come of it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import longshot

CLASSES, IMAGES = 8, 24


def make_photos(root: Path, classes: int = CLASSES, images: int = IMAGES, seed: int = 0) -> Path:
    """A folder of class folders; the pictures of a class share a colour, so that methods have something to learn."""
    rng = np.random.default_rng(seed)
    for number in range(classes):
        folder = root / f"class{number}"
        folder.mkdir(parents=True)
        colour = rng.integers(0, 200, 3)
        for image in range(images):
            pixels = (colour + rng.integers(0, 56, (36, 40, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{image:02}.png")
    return root


def make_network(folder: Path) -> Path:
    """A small network with random weights, saved as a training would."""
    from longshot.models import get_network, save_checkpoint

    network = get_network("cnn4(width=8)", size=(32, 32), seed=0)
    save_checkpoint(folder, network, {"preprocessing": "decode|resize(32,32)|normalize(imagenet)"})
    return folder


@contextmanager
def cache_of(folder: Path) -> Iterator[None]:
    """Let a cache of its own hold, so that nothing is found computed."""
    before = os.environ["LONGSHOT_CACHE"]
    folder.mkdir(parents=True, exist_ok=True)
    toybox = Path(before) / "toybox"  # pictures that are drawn already are not drawn again
    if toybox.exists() and not (folder / "toybox").exists():
        (folder / "toybox").symlink_to(toybox)
    os.environ["LONGSHOT_CACHE"] = str(folder)
    try:
        yield
    finally:
        os.environ["LONGSHOT_CACHE"] = before


class World:
    """A folder with photos and a network; each verb into a folder of its own, as digests of what it wrote."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.photos = make_photos(root / "photos")
        self.data = {"photos": self.photos}
        self.network = make_network(root / "network")
        self.plain = root / "plain.parquet"
        self.few = root / "few.parquet"
        with cache_of(root / "cache-draw"):
            longshot.sample(self.photos, tasks=300, way=3, shot=2, query=3, out=self.plain)
            longshot.sample(self.photos, tasks=10, way=3, shot=2, query=3, seed=1, out=self.few)

    def embed(self, out: Path, **where: Any) -> dict[str, str]:
        """The bytes of features through a network and of raw pixels."""
        with cache_of(out):
            made = {
                name: longshot.embed(self.photos, name, **where) for name in ("pixels", str(self.network))
            }
            return {Path(name).name: digest(Path(str(each.path))) for name, each in made.items()}

    def evaluate(self, out: Path, **where: Any) -> dict[str, str]:
        """The result parts of methods on features and of one that adapts the network."""
        with cache_of(out / "cache"):
            run: dict[str, Any] = {"out": out / "run", "datasets": self.data, **where}
            longshot.evaluate(self.plain, backbones="pixels", methods=["protonet", "ridge"], **run)
            adapting = "finetune-all(steps=3, lr=0.001)"
            longshot.evaluate(self.few, backbones=str(self.network), methods=[adapting], **run)
            return digests(out / "run", "part-*.parquet")

    def sample(self, out: Path, **where: Any) -> dict[str, str]:
        """Testbeds that judges chose: by gradients, by exact search, by filtering."""
        with cache_of(out / "cache"):
            for number, instances in enumerate(("difficult", "greedy", "filtered")):
                longshot.sample(
                    self.photos,
                    tasks=40,
                    way=3,
                    shot=2,
                    query=3,
                    instances=instances,
                    judge="pixels",
                    **({"candidates": 120} if instances == "filtered" else {}),
                    out=out / f"{number}.parquet",
                    **where,
                )
            return digests(out, "*.parquet")

    def tune(self, out: Path, **where: Any) -> dict[str, str]:
        """Trials of a method and of a training: parameters, accuracies, rows and networks."""
        search = {"penalty": "log(0.1, 10)"}
        with cache_of(out / "cache"):
            options: dict[str, Any] = {"trials": 4, "search": search, "out": out / "method", **where}
            longshot.tune("ridge", str(self.plain), backbone="pixels", datasets=self.data, **options)
            settings = {
                "steps": 4,
                "size": 16,
                "network": "cnn4(width=4)",
                "validation_tasks": 4,
                "validate_every": 2,
            }
            options = {
                "trials": 2,
                "search": {"way": "choose(2, 3)"},
                "settings": settings,
                "out": out / "training",
            }
            longshot.tune("protonet(shot=1, query=2)", self.photos, **options, **where)
        outcomes = {}
        for name in ("method", "training"):
            trials = json.loads((out / name / "trials.json").read_text())
            timeless = [{key: value for key, value in trial.items() if key != "seconds"} for trial in trials]
            outcomes[name] = hashlib.sha256(json.dumps(timeless, sort_keys=True).encode()).hexdigest()
        parts = digests(out / "method" / "run", "part-*.parquet")
        return {**outcomes, **parts, **digests(out / "training", "networks/*/network.safetensors")}

    def study(self, out: Path, **where: Any) -> dict[str, str]:
        """A study: its testbeds, tables and result parts."""
        settings = {
            "tasks": 12,
            "way": 3,
            "shots": [1],
            "query": 3,
            "window": 5,
            "methods": ["protonet", "ridge"],
        }
        with cache_of(out / "cache"):
            longshot.run_study(
                "better-testbed-small",
                "toybox",
                out=out / "study",
                settings={**settings, "backbone": "pixels"},
                **where,
            )
            made = [
                digests(out / "study", pattern)
                for pattern in ("testbeds/*.parquet", "run/part-*", "tables/*.csv")
            ]
            return {name: value for each in made for name, value in each.items()}

    def explain(self, out: Path, **where: Any) -> dict[str, str]:
        """What came back when causes were taken away, and the measures behind it."""
        with cache_of(out / "cache"):
            explained = longshot.explain(
                self.few, backbone="pixels", intervene=True, datasets=self.data, **where
            )
            words = [each.sentence for each in explained.interventions] + [
                a.sentence for a in explained.accounts
            ]
            measured = digests(out / "cache" / "attributes", "*.npy")
            return {"words": hashlib.sha256("\n".join(words).encode()).hexdigest(), **measured}

    def overlap(self, out: Path, **where: Any) -> dict[str, str]:
        """Copies within the photos, and their signatures."""
        with cache_of(out / "cache"):
            longshot.find_overlap(self.photos, self.photos, out=out / "overlap.parquet", **where)
            return {**digests(out, "overlap.parquet"), **digests(out / "cache" / "overlap", "*.npy")}

    def bench(self, out: Path, **where: Any) -> dict[str, str]:
        """Result parts of a suite."""
        with cache_of(out / "cache"):
            longshot.bench(
                "pixels",
                suite=str(self.plain),
                methods="protonet",
                out=out / "bench",
                datasets=self.data,
                **where,
            )
            return digests(out / "bench" / "run", "part-*")


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digests(folder: Path, pattern: str) -> dict[str, str]:
    """Relative name → SHA-256 of the files that match."""
    return {str(path.relative_to(folder)): digest(path) for path in sorted(folder.glob(pattern))}
