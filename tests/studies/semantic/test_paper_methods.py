"""Claims of the semantic-sampling paper are about its own methods: others on the page move no verdict."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from longshot.studies.engine.claims import judge
from longshot.studies.semantic.better_claims import better_testbed_claims
from longshot.studies.semantic.semantic_common import paper_calls

TASKS = 120
OWN = sorted({call.partition("(")[0] for call in paper_calls()})
TRANSDUCTIVE = OWN[::2]
FROM_METHODS = {"finer", "correlated", "coarsest", "transductive", "one-shot", "order"}


def lab_of(methods: list[str]) -> Any:
    """A study of two shots whose numbers follow from the method's name, the paper's rising with coarsity."""
    coarsity = np.linspace(10, 90, TASKS)

    def values(testbed: str, _: str, method: str, metric: str = "accuracy") -> np.ndarray:
        rng = np.random.default_rng([*testbed.encode(), *method.encode()])
        slope = 0.003 if method in OWN else -0.01
        level = 0.55 + 0.02 * OWN.index(method) if method in OWN else 0.95
        return level + slope * (coarsity - 50) + rng.normal(0, 0.05, TASKS)

    def setting(method: str) -> str:
        return "transductive" if method in TRANSDUCTIVE else "inductive"

    table = SimpleNamespace(column_names=["coarsity"])
    names = [f"{kind}-{shot}-shot" for kind in ("uniform", "semantic") for shot in (1, 5)]
    return SimpleNamespace(
        settings=SimpleNamespace(shots=[1, 5], backbone="net", calls=methods),
        scores=SimpleNamespace(setting=setting, values=values, column=lambda *_: coarsity, by_setting=list),
        testbeds=dict.fromkeys(names, SimpleNamespace(table=table)),
    )


def verdicts(methods: list[str]) -> dict[str, Any]:
    claims = [claim for claim in better_testbed_claims() if claim.id in FROM_METHODS]
    return {each.claim.id: (each.verdict, each.p, each.numbers) for each in judge(claims, lab_of(methods))}


def test_verdicts_do_not_move_when_other_methods_are_added() -> None:
    alone = verdicts(OWN)
    assert set(alone) == FROM_METHODS and alone["correlated"][0] == "confirmed"
    assert verdicts([*OWN, *(f"stranger-{number}" for number in range(9))]) == alone


def test_a_stranger_would_move_them() -> None:
    """What the test above rests on: one method of the paper with a stranger's numbers contradicts the claim."""
    lab = lab_of(OWN)
    values = lab.scores.values
    lab.scores.values = lambda bed, net, method, *metric: values(
        bed, net, "x" if method == OWN[0] else method, *metric
    )
    claims = [claim for claim in better_testbed_claims() if claim.id == "correlated"]
    assert judge(claims, lab)[0].verdict == "contradicted"
