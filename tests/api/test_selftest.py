"""The self-test covers every registry, agrees with the reference here, and finds what is wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

import longshot
from longshot.api import selftest
from longshot.api.selftest import Check, all_checks, largest_difference, run_check
from longshot.base import RUNTIMES, TaskBatch, UserError
from longshot.cli import cli
from longshot.models import ProtoNet, list_methods
from longshot.tasks import OBJECTIVES
from longshot.training import ALGORITHMS

CPU = torch.device("cpu")


def test_everything_registered_is_checked() -> None:
    checked = {(check.kind, check.name.partition(",")[0]) for check in all_checks()}
    methods = {("method", str(row["name"])) for row in list_methods()}
    assert checked == methods | {
        *(("selection", name) for name in OBJECTIVES),
        *(("engine", name) for name in ("torch", *RUNTIMES)),
        *(("training", name) for name in ALGORITHMS),
    }


QUICK = ["method protonet", "method bd-cspn", "method simpleshot", "method finetune-5", "method maml"]
QUICK += ["selection ridge, one step", "selection error, from random weights", "engine torch"]
QUICK += ["training protonet", "training ctx", "training fomaml"]


@pytest.mark.parametrize("name", QUICK)
def test_the_cpu_agrees_with_double_precision(name: str) -> None:
    (check,) = (check for check in all_checks() if f"{check.kind} {check.name}" == name)
    outcome = run_check(check, CPU)
    assert outcome.state == "ok", outcome.detail
    assert outcome.difference is not None and 0 < outcome.difference < 1e-4  # single is not double precision


@pytest.mark.long
def test_every_check_passes_on_a_cpu(tmp_path: Path) -> None:
    rows = longshot.doctor(selftest=True, device="cpu", report=tmp_path / "report.json")
    assert [row for row in rows if row["state"] not in ("ok", "absent")] == []


class Planted(ProtoNet):
    """ProtoNet that is wrong in single precision alone, as a broken kernel would make it."""

    name = "planted"

    def scores(self, batch: TaskBatch) -> Tensor:
        scores = super().scores(batch)
        if batch.support.dtype == torch.float32:
            scores[:, 0, 0] -= 1.0
        return scores


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong method in the registry, and one that breaks off; nothing else is checked."""
    module = ModuleType("planted_methods")
    module.Planted = Planted  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "planted_methods", module)
    methods = {"planted": "planted_methods:Planted", "protonet": f"{ProtoNet.__module__}:ProtoNet"}
    monkeypatch.setattr("longshot.models.methods.METHODS", methods)

    def broken(device: torch.device, dtype: torch.dtype) -> list[Tensor]:
        raise RuntimeError(f"no kernel image in {Path.home() / 'somebody' / 'lib.so'} for this device")

    registered = selftest.all_checks

    def planted_checks() -> Iterator[Check]:
        yield from (check for check in registered() if check.name in methods and check.kind == "method")
        yield Check("training", "broken", 1e-3, broken)

    monkeypatch.setattr(selftest, "all_checks", planted_checks)


@pytest.mark.usefixtures("planted")
def test_a_wrong_method_and_a_broken_one_are_told_and_fail(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    result = CliRunner().invoke(cli, ["doctor", "--selftest", "--device", "cpu", "-o", str(path), "--json"])
    assert result.exit_code == 1
    rows = {row["what"]: row for row in json.loads(result.stdout)}
    states = {name: rows[name]["state"] for name in ("method planted", "method protonet", "training broken")}
    assert states == {"method planted": "differs", "method protonet": "ok", "training broken": "failed"}
    assert "at most 1e-03 allowed" in rows["method planted"]["detail"]
    assert rows["selftest"]["detail"].startswith("1 of 3 checks agree with the CPU in double precision")
    again = CliRunner().invoke(cli, ["doctor", "--selftest", "--device", "cpu", "-o", str(path)])
    assert isinstance(again.exception, SystemExit)  # no UserError: a report of its own is replaced
    text = path.read_text()
    assert str(Path.home()) not in text and str(tmp_path) not in text
    report = json.loads(text)
    assert report["versions"]["torch"] == torch.__version__
    assert report["checks"][2]["reason"] == "RuntimeError: no kernel image in … for this device"


def test_a_difference_is_relative_to_the_largest_number_and_infinite_where_shapes_or_infinities_differ() -> (
    None
):
    exact = [torch.tensor([0.0, 100.0]), torch.tensor([0.5])]
    assert largest_difference(exact, [torch.tensor([1.0, 100.0]), torch.tensor([0.5])]) == pytest.approx(0.01)
    assert largest_difference(exact, [exact[0], torch.tensor([0.25])]) == pytest.approx(0.25)
    assert largest_difference(exact, [exact[0], torch.tensor([float("nan")])]) == float("inf")
    assert largest_difference(exact, [exact[0], torch.zeros(2)]) == float("inf")


def test_what_differs_without_a_number_says_why() -> None:
    def shapes(device: torch.device, dtype: torch.dtype) -> list[Tensor]:
        return [torch.zeros(2 if dtype == torch.float32 else 3)]

    outcome = run_check(Check("method", "shapes", 1e-3, shapes), CPU)
    assert (outcome.state, outcome.detail) == ("differs", "other shapes, or infinite in other places")


def test_a_report_without_a_selftest_is_refused() -> None:
    with pytest.raises(UserError, match="report is written by the self-test; add selftest=True"):
        longshot.doctor(report="report.json")
