"""Distances between classes from files: other people's, of texts, of confusions, of experts."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from longshot.base import Floats, UserError, note


def read_distances(
    path: str | os.PathLike[str], class_ids: Sequence[str], order: Sequence[str] | None = None
) -> Floats:
    """Read distances between classes [C, C] from a CSV or ``.npy`` file; NaN for classes that the file lacks.

    A CSV may have the classes as first row and first column, as :func:`write_matrix` writes them. A matrix without
    names is in the order of ``order``, or of ``class_ids``.
    """
    file = Path(path)
    names, matrix = _read_matrix(file)
    if not names:
        names = list(class_ids if order is None else order)
        whose = "the dataset" if order is None else "the class order that was given"
        note(f"{file} names no classes; its rows are taken to be in the order of {whose}")
    size = len(names)
    if matrix.shape != (size, size):
        shape = " × ".join(f"{length:,}" for length in matrix.shape)
        raise UserError(
            f"{file} has {shape} numbers, but there are {size:,} classes",
            "write the classes as first row and first column of a CSV",
        )
    wrong = ~np.isfinite(matrix) | (matrix < 0) | ~np.isclose(matrix, matrix.T) | (np.eye(size) * matrix > 0)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise UserError(
            f"{file}: {matrix[i, j]:g} from '{names[i]}' to '{names[j]}' and {matrix[j, i]:g} back are no distance",
            "distances are 0 or more, equal both ways, and 0 from a class to itself",
        )
    numbers = {name: number for number, name in enumerate(names)}
    at = np.array([numbers.get(class_id, -1) for class_id in class_ids])
    return np.where((at < 0) | (at < 0)[:, None], np.nan, matrix[np.ix_(at, at)])


def _read_matrix(file: Path) -> tuple[list[str], Floats]:
    """Return the names of a matrix, where it has any, and its numbers."""
    if not file.is_file():
        raise UserError(f"There is no file of distances at {file}; check the path.")
    try:
        if file.suffix.lower() == ".npy":
            return [], np.load(file, allow_pickle=False).astype(np.float64)
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = [row for row in csv.reader(lines) if row]
        if not rows or _is_number(
            rows[0][0]
        ):  # a matrix is symmetric: only its corner tells names from numbers
            return [], np.array(rows, np.float64)
        names = [row[0].strip() for row in rows[1:]]
        if not names or names != [name.strip() for name in rows[0][1:]]:
            raise ValueError("the first row names other classes than the first column")
        return names, np.array([row[1:] for row in rows[1:]], np.float64)
    except (ValueError, TypeError, OSError):
        raise UserError(
            f"{file} is no matrix of distances",
            "give a .npy file, or a CSV with the classes as first row and first column",
        ) from None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
