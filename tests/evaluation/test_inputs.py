"""What the user asked for: lists and values in words, networks under one label, features of the right dataset."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from longshot.base import UserError, hash_text
from longshot.evaluation import FeatureSource
from longshot.evaluation.run_inputs import OpenedBackbones, as_list, describe_value, features_for
from longshot.models import backbone_name, backbone_parts


def features(rows: int = 2, shape: tuple[int, ...] = (2, 3), **facts: Any) -> Any:
    defaults = {"hash": "h", "dim": 3, "dataset": "birds", "fingerprint": "b" * 64}
    return SimpleNamespace(**{**defaults, "array": np.zeros(shape), "keys": list(range(rows)), **facts})


def test_one_thing_or_several() -> None:
    assert as_list("pixels") == ["pixels"] and as_list(Path("a")) == [Path("a")] and as_list(3) == [3]
    assert as_list(("a", "b")) == as_list({"x": "a", "y": "b"}.values()) == as_list(iter("ab")) == ["a", "b"]
    assert as_list([]) == []


@pytest.mark.parametrize(("length", "shown"), [(58, 60), (59, 58)])
def test_a_long_value_is_cut(length: int, shown: int) -> None:
    """With its quotes a text of 58 has 60 characters; beyond, 57 and an ellipsis are left."""
    text, _, kind = describe_value("x" * length).rpartition(" ")
    assert (len(text), kind) == (shown, "(str)") and text.endswith("'" if shown == 60 else "…")


def test_backbones_side_by_side() -> None:
    assert (
        backbone_parts("pixels  +  a+b") == ["pixels", "a+b"]
        and backbone_name("pixels  +  b") == "pixels + b"
    )
    pair = FeatureSource("a + b", (features(view="x", dim=3), features(view="y", dim=4)))
    assert pair.dim == 7 and pair.view == hash_text("x", "y") != hash_text("y", "x")
    assert FeatureSource("a", (features(view="x"),)).view == "x"


class TestLabels:
    def test_a_network_stands_under_its_first_label(self, capsys: pytest.CaptureFixture[str]) -> None:
        opened = OpenedBackbones()
        assert opened.enter("net", "1", chosen=False) == "net"
        assert opened.enter("copy", "1", chosen=True) == "net"
        assert opened.enter("other", "2", chosen=False) == "other"
        assert list(opened.identities) == ["net", "other"]

    def test_a_label_means_one_network_and_a_network_has_one_label(self) -> None:
        opened = OpenedBackbones()
        opened.enter("net", "1", chosen=True)
        with pytest.raises(UserError, match="Two different networks are both called 'net'"):
            opened.enter("net", "2", chosen=True)
        with pytest.raises(UserError, match="'net' and 'mine' are one and the same network"):
            opened.enter("mine", "1", chosen=True)
        assert opened.enter("net", "1", chosen=True) == "net"

    def test_another_name_keeps_the_order(self) -> None:
        opened = OpenedBackbones(identities={"a": "1", "b": "2", "c": "3"}, names={"b": "file"})
        opened.rename("b", "x")
        assert list(opened.identities.items()) == [("a", "1"), ("x", "2"), ("c", "3")]
        assert opened.names == {"x": "file"}


class TestFeatures:
    def test_those_of_the_dataset(self) -> None:
        own = features()
        assert features_for({"net": {"b" * 64: own}}, "net", "birds", "b" * 64).features == (own,)

    def test_of_another_dataset_they_are_refused(self) -> None:
        with pytest.raises(UserError) as caught:
            features_for({"net": {"b" * 64: features()}}, "net", "cars", "c" * 64)
        assert (
            "made from the dataset 'birds' (bbbbbbbbbbbb…), but the testbed is drawn from 'cars' (cccccccccccc…)"
            in str(caught.value)
        )

    @pytest.mark.parametrize("shape", [(2,), (2, 3, 4), (3, 3)])
    def test_they_are_rows_of_numbers(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(UserError, match="but 2 rows of numbers are needed, one per image"):
            features_for({"net": {"b" * 64: features(shape=shape)}}, "net", "birds", "b" * 64)
