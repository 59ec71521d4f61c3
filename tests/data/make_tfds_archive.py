"""How tfds_genuine.zip was made: TensorFlow Datasets itself prepares a small dataset and says what it reads back.

    pip install tensorflow-cpu tensorflow-datasets      (made with 2.21.0 and 4.9.10)
    python tests/data/make_tfds_archive.py tests/data/tfds_genuine.zip

The zip holds the prepared folder ``scenes/1.0.0`` (three shards per split) and ``expected.json``: the file names that
TFDS gives for slices of its splits, and all features of three examples.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

SLICES = ("train", "test", "train[:90%]", "train[90%:]", "train[60%:80%]", "test[:50%]", "train[:8]")


class Scenes(tfds.core.GeneratorBasedBuilder):
    """Forty and eleven grey pictures with objects."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        objects = tfds.features.Sequence(
            {
                "size": tfds.features.ClassLabel(names=["large", "small"]),
                "pixel_coords": tfds.features.Tensor(shape=(3,), dtype=tf.float32),
            }
        )
        features = {
            "image": tfds.features.Image(shape=(None, None, 3)),
            "mask": tfds.features.Image(shape=(None, None, 1)),
            "label": tfds.features.ClassLabel(names=["cat", "dog", "big bird"]),
            "coarse": tfds.features.ClassLabel(num_classes=2),
            "file_name": tfds.features.Text(),
            "weight": tfds.features.Scalar(tf.float32),
            "count": tf.int64,
            "night": tf.bool,
            "box": tfds.features.BBoxFeature(),
            "objects": objects,
        }
        keys = ("image", "label")
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features), supervised_keys=keys
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(0, 40), "test": self._generate_examples(100, 11)}

    def _generate_examples(self, start, size):
        for i in range(start, start + size):
            yield (
                f"{i}",
                {
                    "image": np.full((5, 7, 3), i, np.uint8),
                    "mask": np.zeros((5, 7, 1), np.uint8),
                    "label": i % 3,
                    "coarse": i % 2,
                    "file_name": f"{i}.png",
                    "weight": i / 4,
                    "count": -i,
                    "night": i % 2 == 0,
                    "box": tfds.features.BBox(0.0, 0.25, 0.5, 1.0),
                    "objects": [
                        {"size": k % 2, "pixel_coords": np.array([k, i, 8 + k / 4], np.float32)}
                        for k in range(i % 4)
                    ],
                },
            )


def plain(value):
    """NumPy values as JSON has them."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    value = value.decode() if isinstance(value, bytes) else value
    return value if isinstance(value, str) else np.asarray(value).tolist()


def main() -> None:
    with tempfile.TemporaryDirectory() as top:
        builder = Scenes(data_dir=top)
        builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=3))
        in_order = tfds.ReadConfig(interleave_cycle_length=1)
        read = {
            part: list(tfds.as_numpy(builder.as_dataset(split=part, read_config=in_order))) for part in SLICES
        }
        expected = {
            "slices": {part: [row["file_name"].decode() for row in rows] for part, rows in read.items()},
            "examples": [{k: plain(v) for k, v in row.items() if k != "mask"} for row in read["train"][:3]],
        }
        with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted((Path(top) / "scenes").rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(top))
            archive.writestr("expected.json", json.dumps(expected, indent=1))


if __name__ == "__main__":
    main()
