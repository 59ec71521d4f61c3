"""A format of datasets: images whose names begin with their label, ``cat_0001.png``."""

from pathlib import Path

from longshot.base import UserError
from longshot.data import Dataset, Format, assemble

ENDINGS = (".png", ".jpg", ".jpeg")


class LabelInName(Format):
    """Take what stands before the last underscore of a file's name as its class."""

    name = "label-in-name"
    title = "images whose names begin with their label"
    origin = "your own"
    layout = "cat_0001.png, dog_0001.png …"

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Return the images right inside the folder ``path`` by the labels in their names."""
        files = sorted(
            file.name for file in path.iterdir() if file.suffix.lower() in ENDINGS and "_" in file.stem
        )
        if not files:
            raise UserError(f"{path} has no image whose name is LABEL_NUMBER.png; at least one is needed")
        labels = [Path(file).stem.rpartition("_")[0] for file in files]
        return assemble(name, self.source(path), labels, files, path)
