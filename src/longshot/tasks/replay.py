"""Meta-Dataset's own episodes, bit for bit: the reference sampler's random stream replayed, and drawn as a testbed.

Classes, shots and queries are the reference's, images are ours.

    python -m longshot.tasks.replay specs/*_dataset_spec.json

prints a hash of the first 200 episodes of every source and split, to compare with those of another implementation.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from longshot.base import Ints, Ragged, TaskPlan, UserError, first, hash_file, hash_json, note
from longshot.base import count as counted
from longshot.data import SPEC_SPLITS, Dataset, Spec, canonical_split, read_spec
from longshot.tasks.base import Pool, Shape
from longshot.tasks.published_names import find_classes
from longshot.tasks.streams import Streams
from longshot.tasks.words import choice_of

MIN_WAY, MAX_WAY, MAX_SPAN = 5, 50, 392
MAX_QUERY, MAX_SUPPORT, MAX_CONTRIBUTION = 10, 500, 100
_LOG_HALF, _LOG_TWO = np.log(0.5), np.log(2.0)


@dataclass(frozen=True, eq=False)
class ReplaySource:
    """One split of a Meta-Dataset source: class sizes in the split's order, and its groups where it has some.

    ``kind`` is 'flat', 'bilevel' (groups: alphabets) or 'hierarchical' (groups: leaf sets of eligible nodes).
    """

    name: str
    kind: str
    sizes: Ints  # [C] images per class
    groups: tuple[Ints, ...] = ()  # positions in the split


def read_source(path: str | Path, split: str = "test") -> ReplaySource:
    """Read a split (train, valid or test) of a ``dataset_spec.json`` of Meta-Dataset v1.

    Parameters
    ----------
    path : str or Path
        The spec.
    split : str
        Which of its splits; one without enough classes for an episode is a UserError.
    """
    return source_of(read_spec(Path(path)), split)


def source_of(spec: Spec, split: str) -> ReplaySource:
    """Return a split of a spec that was read."""
    part = SPEC_SPLITS.get(canonical_split(split) or "")
    if part is None:
        raise UserError(f"Meta-Dataset has no split '{split}'; choose train, valid or test.")
    classes = spec.splits[part]
    if len(classes) < MIN_WAY:
        raise UserError(
            f"Meta-Dataset's {spec.name} has {len(classes)} {split} classes, but an episode needs {MIN_WAY}",
            f"choose another split ({_split_sizes(spec)})",
        )
    sizes = np.array([spec_class.images for spec_class in classes], dtype=np.int64)
    source = ReplaySource(spec.name, spec.kind, sizes, _groups(spec, part))
    if spec.kind == "hierarchical" and not source.groups:
        raise UserError(
            f"Meta-Dataset's {spec.name} has 0 {split} nodes above {MIN_WAY} to {MAX_SPAN} classes, but an episode "
            "needs 1",
            "choose another split",
        )
    if spec.kind == "bilevel" and min(map(len, source.groups)) < MIN_WAY:
        raise UserError(
            f"A super-class of Meta-Dataset's {spec.name} has {min(map(len, source.groups))} {split} classes, but an "
            f"episode needs {MIN_WAY} of one super-class",
            "choose another split",
        )
    return source


def episodes(source: ReplaySource, count: int, seed: int) -> TaskPlan:
    """Draw the first ``count`` episodes of a sampler made right after the module generator got ``seed``.

    Classes are positions in the split.
    """
    if not 0 <= seed < 2**32:
        raise UserError(f"The seed is {seed}, but that of a replay lies between 0 and 4,294,967,295.")
    module = np.random.RandomState(seed)
    rng = np.random.RandomState(seed=module.randint(0, 2**32, dtype="uint32"))
    rows = []
    for _ in range(count):
        classes = _draw_classes(source, rng)
        rows.append((classes, *_describe(source.sizes[classes], rng)))
    return TaskPlan(*(Ragged.from_lists([row[part] for row in rows]) for part in range(3)))


def episode_rows(plan: TaskPlan) -> list[list[list[int]]]:
    """List episodes as the reference does: [class position in the split, support, query] for each class."""
    table = np.stack([part.values for part in (plan.classes, plan.shots, plan.queries)], axis=1)
    return [table[slice(*plan.slots_of(task))].tolist() for task in range(len(plan))]


def hash_episodes(source: ReplaySource, count: int = 200, seed: int = 1234) -> str:
    """Return the SHA-256 of the canonical JSON of the first ``count`` episodes, each as ``episode_rows`` lists it."""
    return hash_json(episode_rows(episodes(source, count, seed)))


def _draw_classes(source: ReplaySource, rng: np.random.RandomState) -> Ints:
    """Draw classes as the reference's ``RandomState.choice`` does, without its checks.

    ``choice(n)`` is ``randint(n)``, ``choice(n, k, replace=False)`` is ``permutation(n)[:k]``, and ``choice`` with
    probabilities takes one ``random_sample``.
    """
    if source.kind == "flat":
        way = rng.randint(MIN_WAY, min(MAX_WAY, len(source.sizes)) + 1)
        return rng.permutation(len(source.sizes))[:way]
    rng.random_sample()  # the reference tosses a coin between this rule and the flat one, which never wins
    group = source.groups[rng.randint(len(source.groups))]
    if source.kind == "hierarchical":
        return group if len(group) <= MAX_WAY else group[rng.permutation(len(group))[:MAX_WAY]]
    way = rng.randint(MIN_WAY, min(MAX_WAY, len(group)) + 1)
    return group[rng.permutation(len(group))[:way]]


def _describe(sizes: Ints, rng: np.random.RandomState) -> tuple[Ints, Ints]:
    """Draw shots and queries of classes of these sizes."""
    query = min(MAX_QUERY, int(sizes.min()) // 2)
    available = sizes - query
    beta = rng.uniform()
    # Casting cuts off after the point, which is the floor of what is not negative.
    shares = (beta * np.minimum(available, MAX_CONTRIBUTION) + 1).astype(np.int64)
    support = min(MAX_SUPPORT, int(np.add.reduce(shares)))
    weight = np.exp(rng.uniform(_LOG_HALF, _LOG_TWO, len(sizes))) * sizes
    shots = (weight / np.add.reduce(weight) * (support - len(sizes))).astype(np.int64) + 1
    return np.minimum(shots, available), np.full(len(sizes), query)


def _split_sizes(spec: Spec) -> str:
    return ", ".join(f"{split} has {len(spec.splits[part])}" for split, part in SPEC_SPLITS.items())


def _groups(spec: Spec, part: str) -> tuple[Ints, ...]:
    """Return positions in the split that an episode is drawn from: alphabets, or what is below a node; else nothing."""
    if spec.kind == "hierarchical":
        return _leaf_sets(spec.subgraphs[part])
    members: dict[str, list[int]] = {}
    for position, spec_class in enumerate(spec.splits[part] if spec.kind == "bilevel" else ()):
        members.setdefault(spec_class.group, []).append(position)
    return tuple(np.array(group) for group in members.values())


def _leaf_sets(subgraph: Sequence[dict[str, Any]]) -> tuple[Ints, ...]:
    """Return positions of the leaves below each eligible node, nodes by WordNet id."""
    nodes = {node["wn_id"]: node for node in subgraph}
    leaves = sorted(wn_id for wn_id, node in nodes.items() if not node["children_ids"])
    position = {leaf: i for i, leaf in enumerate(leaves)}
    below: dict[str, frozenset[int]] = {}

    def reach(wn_id: str) -> frozenset[int]:
        if wn_id not in below:
            children = nodes[wn_id]["children_ids"]
            own = frozenset((position[wn_id],)) if not children else frozenset()
            below[wn_id] = own.union(*(reach(child) for child in children))
        return below[wn_id]

    spans = [sorted(reach(wn_id)) for wn_id in sorted(nodes) if nodes[wn_id]["children_ids"]]
    return tuple(np.array(span, dtype=np.int64) for span in spans if MIN_WAY <= len(span) <= MAX_SPAN)


@dataclass(frozen=True, eq=False)
class Replay(Shape):
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
        """Draw and check the first ``tasks`` episodes of a split of the spec at ``path``.

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
        """Return the SHA-256 of the episodes' descriptions, as ``hash_episodes`` makes it."""
        return hash_json(episode_rows(self._episodes))

    @property
    def min_way(self) -> int:
        """Return the smallest number of classes of an episode."""
        return MIN_WAY

    @property
    def min_counts(self) -> tuple[int, int]:
        """Return one query and one shot; what each episode needs is checked in ``counts``."""
        return 1, 1

    def ways(self, streams: Streams, available: Ints) -> Ints:
        """Return the number of classes of each episode, [T]."""
        return self._episodes.classes.lengths[streams.tasks]

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Return the class numbers of each episode: positions in the split, found in the dataset by name."""
        numbers = find_classes(self.spec, self.split, pool.dataset)
        chosen = self._episodes.classes.take(streams.tasks)
        return chosen.with_values(numbers[chosen.values])

    def counts(self, streams: Streams, classes: Ragged, pool: Pool) -> TaskPlan:
        """Return the episodes' shots and queries; UserError where a class of the dataset has too few images for one."""
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
        """Return ``dataset`` with the spec's split in place of its own; note where its classes have other sizes."""
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
    """Find the spec of a source in a folder: ``SOURCE_dataset_spec.json`` or ``SOURCE/dataset_spec.json``.

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
    """Raise UserError for what does not go with a replay, which brings shape, classes and split of its own.

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


def main(arguments: Sequence[str] | None = None) -> None:
    """Print source, split, number of classes and the hash of its first episodes, as rows of a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m longshot.tasks.replay", description=main.__doc__)
    parser.add_argument("specs", nargs="+", type=Path, metavar="SPEC", help="dataset_spec.json of a source")
    parser.add_argument("--tasks", type=int, default=200, help="episodes of each split [200]")
    parser.add_argument("--seed", type=int, default=1234, help="of the module's generator [1234]")
    chosen = parser.parse_args(arguments)
    try:
        print("| source | split | classes | SHA-256 |\n|---|---|---:|---|")
        for spec in map(read_spec, chosen.specs):
            for split, part in SPEC_SPLITS.items():
                number = len(spec.splits[part])
                digest = "–"
                if number:
                    digest = f"`{hash_episodes(source_of(spec, split), chosen.tasks, chosen.seed)}`"
                print(f"| {spec.name} | {split} | {number} | {digest} |")
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
