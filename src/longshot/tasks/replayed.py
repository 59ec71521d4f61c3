"""Meta-Dataset's own episodes as a testbed: classes, shots and queries are the reference's, images are ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from longshot.base import Ragged, TaskPlan, UserError, first, hash_file, hash_json, note
from longshot.base import count as counted
from longshot.data import SPEC_SPLITS, Dataset, Spec, canonical_split, class_ids_of, read_spec
from longshot.tasks.base import Pool, Shape
from longshot.tasks.replay import MIN_WAY, episode_rows, episodes, source_of
from longshot.tasks.streams import Streams
from longshot.tasks.words import choice_of

_NUMBER = re.compile(r"^\d+[\s._-]+(?=.*[^\W\d])")  # the "001." of "001.Black_footed_Albatross"


@dataclass(frozen=True, eq=False)
class Replay:
    """Shape and classes at once: task t has the classes, shots and queries of the reference's episode t.

    Parameters
    ----------
    spec : Spec
        The source's ``dataset_spec.json``.
    split : str
        train, validation or test.
    seed : int
        Of the reference's module generator, right after which its sampler is made.
    tasks : int
        How many episodes there are.
    source : str
        The source's name; set by itself.
    spec_sha256 : str
        Hash of the spec's file.
    images : str
        Who chooses the images.
    """

    spec: Spec = field(metadata={"setting": False})
    split: str
    seed: int = field(metadata={"setting": False})  # that of the testbed
    tasks: int = field(metadata={"setting": False})
    source: str = ""
    spec_sha256: str = ""
    images: str = "by Longshot's own stream"
    name: ClassVar[str] = "replay"

    @classmethod
    def read(cls, path: str | Path, split: str, seed: int, tasks: int) -> Replay:
        """The first ``tasks`` episodes of a split of the spec at ``path``; all are drawn and checked here.

        Parameters
        ----------
        path : str or Path
            A ``dataset_spec.json`` of Meta-Dataset.
        split : str
            train, valid or test.
        seed : int
            Of the reference's module generator.
        tasks : int
            How many episodes.
        """
        spec = read_spec(Path(path))
        source = source_of(spec, split)  # checks the split
        replay = cls(spec, str(canonical_split(split)), seed, tasks, source.name, hash_file(path))
        bare = np.flatnonzero(replay._episodes.queries.values == 0)
        if len(bare):
            raise UserError(
                f"Episode {replay._episodes.classes.owners[bare[0]]} of {spec.name} has a class of "
                f"{int(source.sizes.min())} image, which leaves none for the queries, but a class needs 2; take "
                "another spec."
            )
        return replay

    @cached_property
    def _episodes(self) -> TaskPlan:
        return episodes(source_of(self.spec, self.split), self.tasks, self.seed)

    def episodes_sha256(self) -> str:
        """SHA-256 of the episodes' descriptions, as ``hash_episodes`` makes it."""
        return hash_json(episode_rows(self._episodes))

    @property
    def min_way(self) -> int:
        """The fewest classes of an episode."""
        return MIN_WAY

    @property
    def min_images(self) -> int:
        """One of the support and one query; what each episode needs is checked where it is known."""
        return 2

    @property
    def min_counts(self) -> tuple[int, int]:
        """One query and one shot."""
        return 1, 1

    @property
    def pool_counts(self) -> tuple[int, int]:
        """As ``min_counts``: images that a rule limits are refused."""
        return self.min_counts

    def ways(self, streams: Streams, available: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the episodes, [T]."""
        return self._episodes.classes.lengths[streams.tasks]

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Class numbers of each episode: positions in the split, found in the dataset by their names."""
        numbers = find_classes(self.spec, self.split, pool.dataset)
        chosen = self._episodes.classes.take(streams.tasks)
        return chosen.with_values(numbers[chosen.values])

    def counts(self, streams: Streams, classes: Ragged, pool: Pool) -> TaskPlan:
        """The episodes' shots and queries; UserError where a class of the dataset has too few images for one."""
        if pool.restricted:
            raise UserError(
                "A replayed episode says how many of all images of a class it takes, so no rule may limit them",
                "leave out {query_where}, {support_where}, {disjoint_pools} and {rule}",
            )
        chosen = self._episodes.take(streams.tasks)
        shots, queries = chosen.shots.values, chosen.queries.values
        needed, present = shots + queries, pool.sizes[classes.values]
        short = np.flatnonzero(needed > present)
        if len(short):
            slot = int(short[np.argmax((needed - present)[short])])
            label, task = int(classes.values[slot]), int(streams.tasks[classes.owners[slot]])
            raise UserError(
                f"Class '{pool.dataset.class_ids[label]}' of '{pool.dataset.name}' has "
                f"{counted(int(present[slot]), 'image')}, but episode {task} of {self.source} takes "
                f"{int(needed[slot])} of it, and {len(np.unique(classes.values[short]))} classes have too few",
                "complete the dataset: it has fewer images than the spec says",
            )
        return TaskPlan(classes, classes.with_values(shots), classes.with_values(queries))

    def bind(self, dataset: Dataset) -> Dataset:
        """``dataset`` with the spec's split in place of its own; a note where its classes have other sizes."""
        numbers = find_classes(self.spec, self.split, dataset)
        spec_classes = self.spec.splits[SPEC_SPLITS[self.split]]
        differing = [
            f"{spec_class.name}: {dataset.sizes[number]:,} for {spec_class.images:,}"
            for spec_class, number in zip(spec_classes, numbers, strict=True)
            if dataset.sizes[number] != spec_class.images
        ]
        if differing:
            note(
                f"{len(differing):,} of the {len(numbers):,} {self.split} classes have other numbers of images in "
                f"'{dataset.name}' than in the spec ({first(differing, 2)}); the episodes are those of the spec."
            )
        members = tuple(dataset.class_ids[number] for number in sorted(numbers))
        origin = f"{self.source} {self.spec_sha256[:12]}"
        return replace(dataset, splits={self.split: members}, splits_from=origin)


def find_spec_file(folder: str | Path, source: str) -> Path:
    """The spec of a source in a folder of specs: ``SOURCE_dataset_spec.json`` or ``SOURCE/dataset_spec.json``.

    Parameters
    ----------
    folder : str or Path
        Where the specs lie, as in Meta-Dataset's repository or beside its records.
    source : str
        Its name in Meta-Dataset, such as cu_birds.
    """
    names = (f"{source}_dataset_spec.json", f"{source}/dataset_spec.json")
    file = next((Path(folder, name) for name in names if Path(folder, name).is_file()), None)
    if file is None:
        raise UserError(
            f"There is neither {names[0]} nor {names[1]} in {folder}, and a replay of '{source}' needs one of them",
            "put it there, or call the source as Meta-Dataset does",
        )
    return file


def check_replay(choices: Mapping[str, Any], settings: Mapping[str, Any], split: str | None) -> None:
    """UserError for what does not go with a replay, which brings shape, classes and split of its own.

    Parameters
    ----------
    choices : mapping
        The parameters shape, classes, splits, drop_small and published of ``sample``.
    settings : mapping
        Settings of choices that are named by words, as ``sample`` takes them.
    split : str, optional
        Which of the spec's splits; it must be given.
    """
    own = {"shape": "fixed", "classes": "uniform"}
    active = [name for name, value in choices.items() if value not in (None, False, own.get(name))]
    active += [
        name
        for name, value in settings.items()
        if value not in (None, False) and (choice_of(name) in own or name == "coarsity")
    ]
    if active:
        raise UserError(
            f"{{replay}} brings the classes, shots and queries of every task, so {{{active[0]}}} does not go with it",
            "leave one out",
        )
    if split is None:
        raise UserError("{replay} follows one split of the spec", "say which with {split:test}")


def find_classes(spec: Spec, split: str, dataset: Dataset) -> NDArray[np.int64]:
    """The class numbers in ``dataset`` of a split's classes, in the order of the spec, [C].

    A class is found by the id that Longshot's reader of Meta-Dataset gives it, by the spec's name as an id or as a
    class name, by either without case and punctuation, or by the name without a leading number; the first of these
    that one class alone answers to. UserError where classes are missing or two of the spec are one of the dataset's.
    """
    own_ids = dict(zip(spec.classes, class_ids_of(spec), strict=True))
    ladder: list[tuple[Mapping[str, int], Any]] = [
        (_unique(dataset.class_ids), lambda c: own_ids[c]),
        (_unique(dataset.class_ids), lambda c: c.name),
        (_unique(dataset.class_names), lambda c: c.name),
        (_unique(map(_squashed, dataset.class_ids)), lambda c: _squashed(c.name)),
        (_unique(map(_squashed, dataset.class_names)), lambda c: _squashed(c.name)),
        (_unique(map(_bare, dataset.class_names)), lambda c: _bare(c.name)),
    ]
    spec_classes = spec.splits[SPEC_SPLITS[split]]
    numbers, absent = [], []
    for spec_class in spec_classes:
        answers = (names.get(spelled(spec_class)) for names, spelled in ladder)
        number = next((answer for answer in answers if answer is not None), None)
        if number is None:
            absent.append(spec_class.name)
        else:
            numbers.append(number)
    if absent:
        raise UserError(
            f"Dataset '{dataset.name}' has {len(numbers):,} of the {len(spec_classes):,} {split} classes of "
            f"{spec.name}, and a replay needs all (missing: {first(absent)})",
            "give the dataset that the spec describes, with its classes named as there",
        )
    most, times = Counter(numbers).most_common(1)[0]
    if times > 1:
        raise UserError(
            f"Class '{dataset.class_ids[most]}' of '{dataset.name}' answers to {times} {split} classes of {spec.name}, "
            "but each needs its own",
            "name the classes as the spec does",
        )
    return np.array(numbers, dtype=np.int64)


def _unique(names: Any) -> dict[str, int]:
    """Names that one class alone has → its number."""
    numbers: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        numbers.setdefault(name, []).append(number)
    return {name: owners[0] for name, owners in numbers.items() if len(owners) == 1 and name}


def _squashed(name: str) -> str:
    """``Anglo-Saxon_Futhorc/character01`` and ``Anglo-Saxon_Futhorc-character01`` are one."""
    return "".join(character for character in name.casefold() if character.isalnum())


def _bare(name: str) -> str:
    return _squashed(_NUMBER.sub("", name.strip()))
