"""Ten families of four genera of six species: the classes of toybox.

Within a family the first two genera are for training, the third for validation and the fourth for testing.
"""

from __future__ import annotations

from importlib import import_module

from longshot.data.toybox.parts import Solid, ToyFamily

_NAMES = (
    *("animals", "buildings", "crockery", "fish", "flowers"),
    *("fruits", "furniture", "insects", "tools", "vehicles"),
)
FAMILIES: dict[str, ToyFamily] = {name: import_module(f"{__name__}.{name}").FAMILY for name in _NAMES}
_SPLIT_OF_GENUS = ("train", "train", "validation", "test")


def class_ids() -> tuple[str, ...]:
    """All ``family/genus/species`` ids, sorted."""
    return tuple(
        sorted(
            f"{f}/{g}/{s}"
            for f, genera in FAMILIES.items()
            for g, genus in genera.items()
            for s in genus.species
        )
    )


def splits() -> dict[str, tuple[str, ...]]:
    """Class ids for training, validation and testing; a genus is never divided."""
    out: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    for family, genera in FAMILIES.items():
        for split, (name, genus) in zip(_SPLIT_OF_GENUS, genera.items(), strict=True):
            out[split] += [f"{family}/{name}/{species}" for species in genus.species]
    return {split: tuple(sorted(ids)) for split, ids in out.items()}


def build(class_id: str) -> list[Solid]:
    """The parts of one class."""
    family, genus, species = class_id.split("/")
    plan = FAMILIES[family][genus]
    return plan.build(**plan.species[species])
