"""Danish Fungi 2020 (DF20 and DF20-Mini): photos of fungi with a table of seven taxonomic ranks and field notes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import UserError, count, first, note
from longshot.data.dataset import Dataset
from longshot.data.files import repeated
from longshot.data.formats.base import Format, assemble, folders, image_names, need_all, need_folder
from longshot.data.sidecars import attribute_column, header, read_csv
from longshot.data.stores import FileStore
from longshot.data.taxonomy.dag import Taxonomy
from longshot.data.taxonomy.readers import from_parent_column

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
_PARTS = {"train": "train", "public_test": "test"}  # in the file's name → value of the attribute
# Columns that name the class or the file once more, and so tell nothing about an image.
_NAMES = frozenset(
    (*RANKS, "class_id", "scientificName", "specificEpithet", "taxonRank", "image_path", "image_url")
)


class DanishFungi(Format):
    """Species are classes; every other column (Habitat, Substrate, month, …) is an attribute, and ``part`` says in
    which of the two published tables an image is. ``mini`` chooses where both DF20 and DF20-Mini are there;
    ``images`` is the folder of the photos where it is not found by itself.
    """

    name = "danish-fungi"
    title = "Danish Fungi 2020: DF20 (1,604 species) and DF20-Mini"
    origin = "https://sites.google.com/view/danish-fungi-dataset"
    layout = "DF20[M]-train_metadata_PROD*.csv, DF20[M]-public_test_metadata_PROD*.csv, DF20*/*.jpg"

    def __init__(self, mini: bool | None = None, images: str | None = None) -> None:
        if not isinstance(mini, bool | None) or not isinstance(images, str | None):
            raise TypeError("mini is True or False and images the path of a folder")
        self.mini, self.images = mini, images

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """A table by its published name."""
        return any(
            (path / f"{kind}-train_metadata_PROD{version}.csv").is_file()
            for kind in ("DF20", "DF20M")
            for version in ("", "-2")
        )

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """The rows of both tables whose species is known; every photo they name must be there."""
        need_folder(path, "Danish Fungi", "the tables and the folder of photos")
        tables = self._tables(path)
        table = _concat([_read(file, part) for file, part in tables])
        unknown = table["species"].null_count
        if unknown:
            note(
                f"{unknown:,} of {len(table):,} rows of {tables[0][0].name} and the like name no species: left out."
            )
            table = table.filter(pc.is_valid(table["species"]))
        if not len(table):
            raise UserError(f"{path} has no row with a species; copy the tables of Danish Fungi again.")
        keys = pc.extract_regex(table["image_path"].combine_chunks(), pattern=r"(?P<name>[^/\\]+)$").field(
            "name"
        )
        twice = repeated(keys.to_pylist())
        if twice:
            raise UserError(
                f"The tables of {path} list {count(twice, 'photo')} more than once ({first(twice)})."
            )
        folder, files = self._find(path, tables[0][0], keys.to_pylist())
        classes = np.array(table["species"].to_pylist())
        order = pa.array(np.lexsort((np.array(keys.to_pylist()), classes)))
        extra = [column for column in table.column_names if column not in _NAMES]
        attributes = pa.table({c: attribute_column(table[c], c, str(tables[0][0])) for c in extra})
        return assemble(
            name,
            self.source(path),
            classes[order.to_numpy()],
            keys.take(order),
            FileStore(str(folder), pa.array(files, pa.string()).take(order)),
            attributes=attributes.take(order),
            taxonomy=_taxonomy(table),
        )

    def _tables(self, path: Path) -> list[tuple[Path, str]]:
        """(file, part) of one of the two datasets, in the folder or one below."""
        tables: dict[bool, list[tuple[Path, str]]] = {}
        for mini, kind in ((False, "DF20"), (True, "DF20M")):
            for word, part in _PARTS.items():
                pattern = f"{kind}-{word}_metadata_PROD*.csv"
                files = sorted(path.glob(pattern)) or sorted(path.glob(f"*/{pattern}"))
                if len(files) > 1:
                    raise UserError(
                        f"{path} has {len(files)} versions of a table ({first([f.name for f in files])}); keep one."
                    )
                tables.setdefault(mini, []).extend((file, part) for file in files)
        kinds = [mini for mini, files in tables.items() if files]
        if not kinds:
            raise UserError(
                f"{path} has no table called DF20-train_metadata_PROD*.csv or DF20M-…; unpack DF20-metadata.zip there."
            )
        if self.mini is None and len(kinds) > 1:
            raise UserError(
                f"{path} has both DF20 and DF20-Mini; choose with danish-fungi(mini=True) or (mini=False)."
            )
        chosen = kinds[0] if self.mini is None else self.mini
        if not tables[chosen]:
            raise UserError(
                f"{path} has no table of {'DF20-Mini' if chosen else 'DF20'}; leave out mini={chosen}."
            )
        return tables[chosen]

    def _find(self, path: Path, table: Path, keys: list[str]) -> tuple[Path, list[str]]:
        """The folder of the photos, and the name of each there: the copies of 300 pixels spell endings otherwise."""
        if self.images is not None:
            candidates = [path / self.images]
        else:
            candidates = [
                path,
                *folders(path),
                *(inner for outer in folders(path) for inner in folders(outer)),
            ]
        best: tuple[int, Path, list[str | None]] | None = None
        for folder in candidates:
            there = image_names(folder)
            if not there and self.images is None:
                continue
            exact, by_stem = set(there), {_stem(file): file for file in there}
            files = [key if key in exact else by_stem.get(_stem(key)) for key in keys]
            lacking = sum(file is None for file in files)
            if best is None or lacking < best[0]:
                best = (lacking, folder, files)
            if not lacking:
                break
        if best is None:
            raise UserError(
                f"{path} has tables but no folder of photos; unpack DF20-300px.tar.gz or the like there."
            )
        _, folder, files = best
        missing = [key for key, file in zip(keys, files, strict=True) if file is None]
        need_all(missing, len(keys), "photo", table, f"unpack all photos into {folder}")
        return folder, [file for file in files if file is not None]


def _stem(file: str) -> str:
    return file.rpartition(".")[0]


def _read(file: Path, part: str) -> pa.Table:
    data = file.read_bytes()
    columns = header(data, str(file))
    absent = [column for column in (*RANKS, "image_path") if column not in columns]
    if absent:
        raise UserError(f"{file} has no column {' and '.join(absent)}; is it the table of Danish Fungi 2020?")
    table = read_csv(data, str(file), text_columns=[*RANKS, "image_path"])
    return table.append_column("part", pa.array([part] * len(table), pa.string()))


def _concat(tables: list[pa.Table]) -> pa.Table:
    """One below the other; a column that holds numbers here and words there becomes words."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:
        as_text = [pa.table({c: table[c].cast(pa.string()) for c in table.column_names}) for table in tables]
        return pa.concat_tables(as_text, promote_options="permissive")


def _taxonomy(table: pa.Table) -> Taxonomy:
    """Kingdom … genus above each species; a rank that is empty is left out of the path."""
    rows = table.select(RANKS).group_by(list(RANKS), use_threads=False).aggregate([]).to_pylist()
    pairs = [(row["species"], "/".join(row[rank] for rank in RANKS[:-1] if row[rank])) for row in rows]
    return from_parent_column(sorted(pairs))
