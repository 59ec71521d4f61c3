"""How hard a split is for few-shot learning: how alike its test classes are, and what its train classes cost them.

Two numbers, measured apart by the proxy of ``proxy.py``:

class similarity   the *frozen* accuracy on tasks of the test classes, which no train class has touched;
transfer loss      accuracy after learning from as many *other* train classes minus accuracy after learning from these,
                   for the same tasks. Other train classes are drawn from all classes that are not in the task.

So a random split loses nothing on average: the loss is what a split costs beyond the choice of its test classes.
What it is harder than random by, in *learnt* accuracy, is the loss plus what its test classes are harder by whatever
one learns from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longshot.core.arrays import Floats, Ints
from longshot.core.wording import count
from longshot.splits.proxy import Proxy, Unmeasurable
from longshot.statistics import Interval, mean_interval

SEEDS = 12  # of supports and of other train classes, for one split
FOLDS = 4  # groups of test classes, each with other train classes of its own, per seed


@dataclass(frozen=True)
class Hardness:
    """Accuracies as shares, each with its 95 % interval over seeds, or over splits where there are several."""

    frozen: Interval  # accuracy on the test classes: class similarity
    learnt: Interval  # after the discriminants of the train classes
    transfer_loss: Interval  # learnt on other classes − learnt on these
    way: int
    shot: int
    splits: int = 1

    @classmethod
    def over(cls, values: Floats, proxy: Proxy, splits: int = 1) -> Hardness:
        """From values [n, 3] of ``seed_hardness``, one row per seed or split."""
        frozen, learnt, loss = (mean_interval(column) for column in values.T)
        return cls(frozen, learnt, loss, proxy.way, proxy.shot, splits)

    @property
    def other(self) -> float:
        """Mean accuracy after learning from other train classes."""
        return self.learnt.mean + self.transfer_loss.mean

    def record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "frozen_accuracy": self.frozen.as_dict(),
            "learnt_accuracy": self.learnt.as_dict(),
            "other_accuracy": self.other,
            "transfer_loss": self.transfer_loss.as_dict(),
            "way": self.way,
            "shot": self.shot,
            "splits": self.splits,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Hardness:
        """Back from ``record``, as split.json holds it."""
        return cls(
            Interval(**record["frozen_accuracy"]),
            Interval(**record["learnt_accuracy"]),
            Interval(**record["transfer_loss"]),
            *(record[name] for name in ("way", "shot", "splits")),
        )


def measure_hardness(
    proxy: Proxy, parts: Mapping[str, Ints], name: str = "", seeds: Sequence[int] = range(SEEDS)
) -> Hardness:
    """One split, with intervals over seeds: draws of supports and of other train classes.

    Parameters
    ----------
    proxy : Proxy
        The features that it is seen through.
    parts : mapping
        train and test → positions of their classes.
    name : str
        What the split is called, for errors.
    seeds : sequence of int
        One measurement each.
    """
    check_measurable(proxy, parts, name)
    learnt = proxy.learn(parts["train"])
    return Hardness.over(np.array([seed_hardness(proxy, parts, seed, learnt) for seed in seeds]), proxy)


def measure_draws(proxy: Proxy, draws: Sequence[Mapping[str, Ints]], name: str = "") -> Hardness:
    """Several splits of one kind, such as random ones: one seed each, with intervals over the splits."""
    values = []
    for seed, parts in enumerate(draws):
        check_measurable(proxy, parts, name)
        values.append(seed_hardness(proxy, parts, seed, proxy.learn(parts["train"])))
    return Hardness.over(np.array(values), proxy, len(draws))


def seed_hardness(proxy: Proxy, parts: Mapping[str, Ints], seed: int, learnt: Floats) -> Floats:
    """[3]: frozen accuracy, learnt accuracy, transfer loss, by one seed; ``learnt`` is the map of the train classes."""
    test = proxy.tested(parts["test"], seed)
    frozen, accuracy = proxy.accuracy(test, seed), proxy.accuracy(test, seed, learnt)
    return np.array([frozen, accuracy, _transfer_loss(proxy, parts["train"], test, seed, learnt)])


def _transfer_loss(proxy: Proxy, train: Ints, test: Ints, seed: int, learnt: Floats) -> float:
    """Mean over groups of test classes, as small as a task allows: the smaller, the more classes are other ones.

    The group's own classes are never learnt from. Both maps solve the same tasks with the same supports.
    """
    rng = proxy.stream("others", seed)
    train_size = int(np.isin(train, proxy.looked_at).sum())
    groups = np.array_split(rng.permutation(test), max(1, len(test) // proxy.way))[:FOLDS]
    losses = []
    for group in groups:
        allowed = proxy.looked_at[~np.isin(proxy.looked_at, group)]
        other = proxy.learn(rng.choice(allowed, train_size, replace=False))
        losses.append(proxy.accuracy(group, seed, other) - proxy.accuracy(group, seed, learnt))
    return float(np.mean(losses))


def check_measurable(proxy: Proxy, parts: Mapping[str, Ints], name: str = "") -> None:
    """Unmeasurable unless there are tasks of the test classes and something to learn from."""
    test, train = (int(np.isin(parts[part], proxy.looked_at).sum()) for part in ("test", "train"))
    called = f"Split '{name}'" if name else "The split"
    if test < proxy.way:
        raise Unmeasurable(
            f"{called} has {count(test, 'test class', 'test classes')}, and a task has {proxy.way}",
            "lower {way} or give the test part more classes",
        )
    if train < 2:
        raise Unmeasurable(f"{called} has {count(train, 'train class', 'train classes')}; 2 are needed.")
