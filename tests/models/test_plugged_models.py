"""Methods and backbones of other packages are found by name, listed, evaluated and hinted at like Longshot's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from torch import Tensor

import longshot
from longshot.base import ImageTask, Plugin, TaskBatch, UserError
from longshot.cli import cli
from longshot.models import (
    Backbone,
    ImageMethod,
    Method,
    Network,
    Sight,
    find_family,
    get_method,
    image_method_names,
    list_backbones,
    list_methods,
    load_backbone,
    mask_absent,
    method_class,
    method_names,
)

HERE = __name__


class NearestSum(Method):
    """Scores by the inner product with the sum of a class's support."""

    name = "nearest-sum"
    setting = "inductive"

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def scores(self, batch: TaskBatch) -> Tensor:
        sums = batch.one_hot.mT @ batch.support
        return mask_absent(self.scale * batch.query @ sums.mT, batch)


class Misnamed(NearestSum):
    """A method that calls itself something else than its plugin does."""

    name = "another"


class FirstClass(ImageMethod):
    """Every query is of the first class."""

    name = "first-class"
    setting = "inductive"

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        return [-task.query.new_ones(len(task.query), task.way).cumsum(1) for task in tasks]

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        return 0.0


class Corner(Backbone):
    """The upper left pixel."""

    reentrant = True

    def forward(self, images: Tensor) -> Tensor:
        return images[:, :, 0, 0]


def open_corner(name: str, device: str) -> Corner:
    return Corner(name, "corner-1", Sight().of("decode|resize(8,8)"), device)


def open_nothing(name: str, device: str) -> object:
    return object()


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that adds a method of each kind and three backbones; it cannot replace what is Longshot's own."""
    added = Plugin(
        about="for tests",
        methods={
            "nearest-sum": f"{HERE}:NearestSum",
            "misnamed": f"{HERE}:Misnamed",
            "protonet": "no_such_module:ProtoNet",
        },
        image_methods={"first-class": f"{HERE}:FirstClass"},
        backbones={
            "corner": (f"{HERE}:open_corner", "the upper left pixel"),
            "corners:": (f"{HERE}:open_corner", "any corner"),
            "nothing": (f"{HERE}:open_nothing", "no backbone at all"),
            "pixels": ("no_such_module:load", "not asked for"),
        },
    )
    monkeypatch.setattr("longshot.base.plugins._entry_points", lambda: ({"tests": added}, {}))


def test_a_method_is_found_by_its_call() -> None:
    method = get_method("nearest-sum(scale=2.0)")
    assert isinstance(method, NearestSum) and method.call == "nearest-sum(scale=2.0)"
    assert isinstance(get_method("first-class"), FirstClass)
    assert "nearest-sum" in method_names() and "first-class" in image_method_names()


def test_longshots_own_methods_stay() -> None:
    assert method_class("protonet").__module__.startswith("longshot.")
    assert method_names().count("protonet") == 1


def test_own_names_are_found_without_a_look_at_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshot.base.plugins._entry_points", pytest.fail)
    get_method("protonet")
    load_backbone("pixels")


def test_a_mistyped_name_gets_the_plugins_name() -> None:
    with pytest.raises(UserError, match="did you mean 'nearest-sum'"):
        get_method("nearest-sun")
    with pytest.raises(UserError, match=r"did you mean 'corner'.*corner, corners:NAME"):
        load_backbone("cornr")
    with pytest.raises(UserError, match="'corners:' is unfinished; write corners:NAME"):
        find_family("corners:")


def test_a_method_must_bear_the_name_that_it_is_found_by() -> None:
    with pytest.raises(UserError, match=f"calls itself 'another'; let {HERE}:Misnamed say name = 'misnamed'"):
        get_method("misnamed")


def test_both_kinds_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Misnamed, "name", "misnamed")
    needs = {method["name"]: method["needs"] for method in list_methods()}
    assert needs["nearest-sum"] == "features" and needs["first-class"] == "images"
    rows = {row["name"]: row for row in list_backbones()}
    assert rows["corner"]["about"] == "the upper left pixel" and rows["corner"]["installed"]
    assert rows["pixels"]["about"].startswith("the image itself")
    assert list_backbones("corner")[0]["dim"] == 3
    for command, name in (("methods", "nearest-sum"), ("backbones", "corner")):
        printed = CliRunner().invoke(cli, [command, "--json"], catch_exceptions=False).stdout
        assert name in {row["name"] for row in json.loads(printed)}


def test_a_backbone_sees_other_pixels_where_it_is_told_to() -> None:
    assert load_backbone("corner").name == "corner"
    assert load_backbone("corners:left").name == "corners:left"
    smaller = load_backbone("corner(size=4)")
    assert smaller.name == "corner(size=4)" and smaller.preprocessing == "decode|resize(4,4)"
    assert smaller.identity != load_backbone("corner").identity
    assert (
        load_backbone("mine=corner", preprocessing="decode|resize(5,5)").preprocessing == "decode|resize(5,5)"
    )


def test_what_is_no_backbone_is_refused() -> None:
    with pytest.raises(UserError, match=f"'nothing' is a object by {HERE}:open_nothing"):
        load_backbone("nothing")


def test_an_evaluation_takes_them(photos: Path, fresh_cache: Path) -> None:
    testbed = longshot.sample(photos, tasks=3, way=2, shot=1, query=2)
    results = longshot.evaluate(testbed, backbones=["corner", "pixels"], methods=["nearest-sum", "protonet"])
    pairs = {(row["backbone"], row["method"]) for row in results.table().to_pylist()}
    assert pairs == {
        (backbone, method) for backbone in ("corner", "pixels") for method in ("nearest-sum", "protonet")
    }
