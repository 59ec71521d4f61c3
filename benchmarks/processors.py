"""How far results move between kinds of processors: the same work with the instructions of older ones.

``ATEN_CPU_CAPABILITY`` and ``ONEDNN_MAX_CPU_ISA`` make PyTorch compute as on a processor without AVX-512 or without
AVX2; other engines cannot be told, so PyTorch computes everything here. For each kind: toybox's first classes through
two backbones, ProtoNet and ridge on uniform tasks, and the supports that difficult selection picks. Printed beside this
processor's own: the largest difference of a feature relative to the largest feature, the share of predictions and the
share of selected supports that differ.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

KINDS = {
    "native": {},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "sse4.1": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}
BACKBONES = ("pixels", "efficientnet-lite0(size=128)")
CLASSES, PER_CLASS, TASKS = 12, 20, 200


def main() -> None:
    """Run every kind in a process of its own and print how far it is from the native one."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, variables in KINDS.items():
            variables = {**variables, "LONGSHOT_ENGINE": "torch"}
            environment = {**os.environ, **variables, "LONGSHOT_CACHE": str(Path(folder, kind, "cache"))}
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "benchmarks.processors",
                    str(Path(folder, kind)),
                    str(_photos(Path(folder))),
                ],
                env=environment,
                check=True,
            )
        native = _read(Path(folder, "native"))
        print(f"{'backbone':20} {'processor':10} {'features':>12} {'predictions':>12} {'supports':>10}")
        for backbone in BACKBONES:
            for kind in KINDS:
                other = _read(Path(folder, kind))[backbone]
                own = native[backbone]
                scale = np.abs(own["features"]).max()
                moved = np.abs(other["features"] - own["features"]).max() / scale
                answers = np.mean(other["predictions"] != own["predictions"])
                supports = np.mean(other["supports"] != own["supports"])
                print(f"{backbone:20} {kind:10} {moved:12.1e} {answers:12.2%} {supports:10.2%}")


def _photos(folder: Path) -> Path:
    """A folder with the first images of some of toybox's classes."""
    photos = folder / "photos"
    if not photos.exists():
        import longshot

        dataset = longshot.open_dataset("toybox")
        for label in range(0, 240, 240 // CLASSES):
            target = photos / str(label)
            target.mkdir(parents=True)
            for number in range(PER_CLASS):
                row = int(dataset.offsets[label]) + number
                dataset.image(row).save(target / f"{number:03d}.png")
    return photos


def measure(out: Path, photos: Path) -> None:
    """What one kind of processor computes, as arrays in ``out``."""
    import longshot

    out.mkdir(parents=True, exist_ok=True)
    dataset = longshot.open_dataset(photos)
    uniform = longshot.sample(dataset, tasks=TASKS, way=5, shot=5, query=10)
    uniform.save(out / "uniform.parquet")
    for backbone in BACKBONES:
        features = longshot.embed(dataset, backbone, device="cpu", dtype="float32")
        difficult = longshot.sample(
            dataset, tasks=TASKS, way=5, shot=5, query=10, instances="difficult", judge=backbone
        )
        results = longshot.evaluate(uniform, backbones=backbone, methods=["protonet", "ridge"], device="cpu")
        table = results.table()
        answers = [np.asarray(row) for row in table.column("prediction").to_pylist()]
        keys = [key for row in difficult.table.column("support").to_pylist() for key in row]
        np.savez(
            out / f"{backbone}.npz",
            features=np.asarray(features.array, dtype=np.float64),
            predictions=np.concatenate(answers),
            supports=np.asarray(keys),
        )


def _read(folder: Path) -> dict[str, dict[str, np.ndarray]]:
    return {backbone: dict(np.load(folder / f"{backbone}.npz")) for backbone in BACKBONES}


if __name__ == "__main__":
    measure(Path(sys.argv[1]), Path(sys.argv[2]))
