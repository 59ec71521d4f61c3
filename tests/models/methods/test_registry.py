from __future__ import annotations

import json
from typing import Any

import pytest

from longshot.base import UserError
from longshot.models import get_method, method_class
from longshot.models.methods import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_every_entry_leads_to_a_method_of_that_name(name: str) -> None:
    method = method_class(name)
    assert method.name == name
    assert method.setting in ("inductive", "transductive")


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_made_again_from_its_call(name: str) -> None:
    method = get_method(name)
    assert method.call == name  # without settings: all at their defaults
    assert get_method(method.call).settings == method.settings


def test_settings_reach_the_method_and_its_call() -> None:
    method = get_method("protonet(scale=2, distance='cosine')")
    assert method.settings == {"distance": "cosine", "scale": 2, "squared": True}
    assert method.call == "protonet(distance='cosine', scale=2)"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("protonett", "did you mean 'protonet'"),
        ("zzz", "the methods are"),
        ("protonet(dist='cosine')", "distance='euclidean', scale=None"),
        ("protonet(distance='city')", "'euclidean' or 'cosine'"),
        ("protonet(scale=-1)", "above 0"),
        ("protonet(scale='x')", "above 0"),
    ],
)
def test_mistakes_are_told_with_the_remedy(call: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        get_method(call)


def test_methods_command_lists_settings(run_cli: Any) -> None:
    listed = {entry["name"]: entry for entry in json.loads(run_cli("methods", "--json").stdout)}
    assert listed["protonet"]["settings"] == {"distance": "euclidean", "scale": None, "squared": True}
    assert listed["protonet"]["variants"] == {"semantic-paper": "protonet(squared=False)"}
    assert listed["ridge"]["variants"] == {}
    assert "protonet" in run_cli("methods").stdout


def test_settings_found_by_tuning_stand_for_a_method(tmp_path):
    file = tmp_path / "best.yaml"
    file.write_text("method: protonet(distance='cosine')\n")
    assert get_method(str(file)).call == "protonet(distance='cosine')"


def test_a_tuning_file_without_a_method_is_told(tmp_path):
    file = tmp_path / "best.yaml"
    file.write_text("algorithm: protonet\n")
    with pytest.raises(UserError, match="method"):
        get_method(str(file))
