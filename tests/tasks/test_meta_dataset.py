"""Meta-Dataset's shape and class rules: the rule by hand, and the distribution of the reference sampler."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from longshot.base import Ragged, TaskPlan, UserError, offsets_of
from longshot.data import Dataset, Taxonomy, read_spec, spec_dataset
from longshot.tasks import (
    BilevelClasses,
    Classes,
    FixedShape,
    HierarchicalClasses,
    MetaDatasetShape,
    Pool,
    Streams,
    UniformClasses,
    sample,
)
from longshot.tasks.replay import ReplaySource, episodes, read_source

ALARM = 1e-4
EPISODES = 2000


class NoPictures:
    def read(self, row: int) -> object:
        raise AssertionError("sampling reads no picture")


def as_pool(source: ReplaySource, taxonomy: Taxonomy | None, ids: list[str]) -> Pool:
    """The source as a dataset whose class c is the split's class c (ids must be sorted)."""
    keys = pa.array([f"{c}/{i}" for c, size in zip(ids, source.sizes, strict=True) for i in range(size)])
    dataset = Dataset(
        source.name, tuple(ids), offsets_of(source.sizes), keys, NoPictures(), "made up", taxonomy
    )
    return Pool(dataset, np.arange(len(ids)))


def native(shared: Path, name: str, split: str = "test") -> tuple[ReplaySource, Pool, Classes]:
    """The replayed source, the same as a pool, and the class rule it uses."""
    path = shared / "data/meta-dataset-specs" / f"{name}_dataset_spec.json"
    source = read_source(path, split)
    if source.kind == "flat":
        return source, as_pool(source, None, [f"{c:04d}" for c in range(len(source.sizes))]), UniformClasses()
    if source.kind == "bilevel":
        ids = [f"{a:03d}/{c:04d}" for a, group in enumerate(source.groups) for c in group]
        return source, as_pool(source, Taxonomy.from_class_ids(ids), ids), BilevelClasses()
    nodes = json.loads(path.read_text())["split_subgraphs"][split.upper()]
    edges = [(node["wn_id"], child) for node in nodes for child in node["children_ids"]]
    leaves = sorted(node["wn_id"] for node in nodes if not node["children_ids"])
    return source, as_pool(source, Taxonomy.from_edges(edges), leaves), HierarchicalClasses()


def draw(pool: Pool, classes: Classes, tasks: int, seed: int = 0) -> TaskPlan:
    streams, shape = Streams.of(seed, tasks), MetaDatasetShape()
    return shape.counts(streams, classes.draw(streams, shape, pool), pool)


@pytest.mark.parametrize("name", ["aircraft", "ilsvrc_2012", "mscoco", "omniglot", "traffic_sign"])
@pytest.mark.parametrize("count", ["ways", "shots", "support size", "queries"])
def test_native_tasks_are_distributed_as_the_reference(shared: Path, name: str, count: str) -> None:
    source, pool, classes = native(shared, name)
    plan = draw(pool, classes, EPISODES, seed=5)
    theirs = episodes(source, EPISODES, seed=99)
    first, their_first = plan.classes.offsets[:-1], theirs.classes.offsets[:-1]
    ours, other = {
        "ways": (plan.classes.lengths, theirs.classes.lengths),
        # One class per task: shots within a task hang together, which the test must not count as evidence.
        "shots": (plan.shots.values[first], theirs.shots.values[their_first]),
        "support size": tuple(
            np.add.reduceat(p.shots.values, p.classes.offsets[:-1]) for p in (plan, theirs)
        ),
        "queries": (plan.queries.values[first], theirs.queries.values[their_first]),
    }[count]
    assert stats.ks_2samp(ours, other).pvalue > ALARM


@pytest.mark.parametrize("name", ["ilsvrc_2012", "omniglot"])
def test_native_classes_appear_as_often_as_in_the_reference(shared: Path, name: str) -> None:
    source, pool, classes = native(shared, name)
    ours = np.bincount(draw(pool, classes, EPISODES, seed=6).classes.values, minlength=len(source.sizes))
    theirs = np.bincount(episodes(source, EPISODES, seed=98).classes.values, minlength=len(source.sizes))
    # Classes of one node or alphabet come together, so the counts spread more than Poisson: compare shares.
    assert np.corrcoef(ours, theirs)[0, 1] > 0.9 or np.std(theirs) < 3 * np.sqrt(theirs.mean())
    assert abs(ours - theirs).max() < 8 * np.sqrt(theirs.max())


@pytest.mark.parametrize(("split", "nodes"), [("train", 113), ("valid", 18), ("test", 15)])
def test_eligible_nodes_of_ilsvrc(shared: Path, split: str, nodes: int) -> None:
    source, pool, classes = native(shared, "ilsvrc_2012", split)
    assert isinstance(classes, HierarchicalClasses)
    groups = classes.groups(MetaDatasetShape(), pool)
    assert len(groups) == nodes
    assert [groups.row(i).tolist() for i in range(nodes)] == [group.tolist() for group in source.groups]


def test_the_rule_by_hand() -> None:
    classes = Ragged.from_lists([[0, 1, 2, 3, 4]])
    sizes = np.array([30, 100, 400, 8, 50])
    plan = MetaDatasetShape().describe(
        classes, sizes, np.full(5, 4), sizes - 4, np.array([0.5]), np.full(5, 0.5)
    )
    # |S| = Σ ⌊0.5 · min(100, |c| − 4) + 1⌋ = 14 + 49 + 51 + 3 + 24; equal weights: R ∝ |c|
    assert plan.queries.values.tolist() == [4] * 5
    assert plan.shots.values.tolist() == [min(136 * size // 588 + 1, size - 4) for size in sizes.tolist()]


def test_shots_may_exceed_the_largest_contribution() -> None:
    classes, sizes = Ragged.from_lists([[0, 1, 2, 3, 4]]), np.array([5000, 200, 200, 200, 200])
    shape = MetaDatasetShape()
    plan = shape.describe(classes, sizes, np.full(5, 10), sizes - 10, np.array([0.999]), np.full(5, 0.5))
    assert plan.shots.values[0] > 249 and plan.shots.values.sum() <= 500


def test_hierarchical_takes_all_leaves_of_a_node(make_dataset) -> None:
    dataset = make_dataset({f"{g}/{c}": 20 for g, n in (("a", 6), ("b", 60), ("c", 3)) for c in range(n)})
    bed = sample(dataset, tasks=60, shape=MetaDatasetShape(), classes=HierarchicalClasses(max_span=60))
    assert {task.way for task in bed} == {6, 50}  # 60 leaves are sub-sampled; 3 are too few; the root has 69


def test_hierarchical_with_a_fixed_shape_takes_its_ways(make_dataset) -> None:
    dataset = make_dataset({f"{g}/{c}": 20 for g in "ab" for c in range(6)})
    bed = sample(dataset, tasks=60, shape=FixedShape(4, 2, 2), classes=HierarchicalClasses(max_span=6))
    assert {task.way for task in bed} == {4}
    assert {len({c[0] for c in task.classes}) for task in bed} == {1}


def test_hierarchical_without_a_node_of_fitting_span(make_dataset) -> None:
    dataset = make_dataset({f"{g}/{c}": 20 for g in "ab" for c in range(4)})
    with pytest.raises(UserError, match=r"spans between 5 and 7 classes \(the widest spans 8\)"):
        sample(dataset, tasks=2, shape=MetaDatasetShape(), classes=HierarchicalClasses(max_span=7))


def test_hierarchical_needs_a_taxonomy(make_dataset) -> None:
    with pytest.raises(UserError, match="no taxonomy to draw nodes from"):
        sample(make_dataset([20] * 6), tasks=2, classes=HierarchicalClasses())


def test_bilevel_stays_inside_one_group(make_dataset) -> None:
    dataset = make_dataset({f"{g}/{c}": 20 for g in "abc" for c in range(7)})
    bed = sample(dataset, tasks=60, shape=MetaDatasetShape(), classes=BilevelClasses())
    assert {len({c[0] for c in task.classes}) for task in bed} == {1}
    assert {task.way for task in bed} == {5, 6, 7}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"min_way": 1}, "The number for min_way is 1, but must be a whole number between 2"),
        ({"min_way": 9, "max_way": 8}, "The number for max_way is 8, but must be a whole number between 9"),
        ({"max_query": 0}, "The number for max_query is 0, but must be a whole number between 1"),
    ],
)
def test_limits_that_make_no_sense(bad: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        MetaDatasetShape(**bad)


# --- groups of the genuine specs ---


def from_spec(shared: Path, name: str) -> Dataset:
    """The dataset of a genuine spec, with two images per class and no files."""
    spec = read_spec(shared / "data" / "meta-dataset-specs" / f"{name}_dataset_spec.json")
    return spec_dataset(name, "none", spec, np.repeat(np.arange(len(spec.classes)), 2), None)  # type: ignore[arg-type]


def members_of(groups: Ragged) -> list[list[int]]:
    return [part.tolist() for part in np.split(groups.values, groups.offsets[1:-1])]


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_nodes_of_ilsvrc_are_those_of_the_reference(shared: Path, split: str) -> None:
    dataset = from_spec(shared, "ilsvrc_2012")
    classes = dataset.split_classes(split)
    groups = HierarchicalClasses().groups(MetaDatasetShape(), Pool(dataset, classes))
    expected = read_source(
        shared / "data" / "meta-dataset-specs" / "ilsvrc_2012_dataset_spec.json", split
    ).groups
    assert members_of(groups) == [classes[positions].tolist() for positions in expected]


def test_alphabets_of_omniglot_are_those_of_the_reference(shared: Path) -> None:
    dataset = from_spec(shared, "omniglot")
    classes = dataset.split_classes("test")
    groups = BilevelClasses().groups(MetaDatasetShape(), Pool(dataset, classes))
    expected = read_source(shared / "data" / "meta-dataset-specs" / "omniglot_dataset_spec.json").groups
    assert sorted(members_of(groups)) == sorted(classes[positions].tolist() for positions in expected)
