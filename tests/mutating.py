"""Damage for files, at random."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def mutate(file: Path, rng: np.random.Generator) -> None:
    """A flipped bit, bytes replaced, cut short, a piece doubled, or emptied; never nothing."""
    data = file.read_bytes()
    position, kind = int(rng.integers(len(data))), int(rng.integers(5))
    changed = (
        data[:position] + bytes([data[position] ^ 1 << int(rng.integers(8))]) + data[position + 1 :],
        data[:position] + rng.bytes(4) + data[position + 4 :],
        data[:position],
        data[:position] + data[max(0, position - 20) :],
        b"",
    )[kind]
    file.write_bytes(changed if changed != data else data[:-1])
