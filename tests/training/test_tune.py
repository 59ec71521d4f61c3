"""Search spaces, the search itself, and the files that come out of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import longshot
from conftest import RunCli
from longshot.api import tune
from longshot.base import (
    Tuned,
    UserError,
    call_defaults,
    check_settings,
    parse_call,
    read_tuned,
    tuned_method,
    tuned_training,
    write_tuned,
)
from longshot.models import get_method, method_class
from longshot.training import Space, algorithm_class
from longshot.training.search_trials import TrialObjective, run_search
from longshot.training.spaces import Trial, get_space, parse_parameter, space_names, space_of_call

pytest.importorskip("optuna", reason="needs the extra 'tune'")


class Hill(TrialObjective):
    """A search without images: best at x = 0.3; may fail or be interrupted at a given trial."""

    def __init__(self, at: Callable[[int], None] = lambda count: None) -> None:
        self.at, self.count = at, 0

    @property
    def identity(self) -> dict[str, Any]:
        return {"hill": 1}

    def value(self, trial: Trial, folder: Path) -> float:
        self.count += 1
        self.at(self.count)
        assert trial.method is not None
        settings = parse_call(trial.method)[1]
        return 1 - abs(settings["temperature"] - 0.3) - 0.1 * (settings.get("head") == "linear")


def hill(**search: str) -> Space:
    return space_of_call("finetune", search or {"temperature": "uniform(0.1, 1)"}, trains=False)


def tried(folder: Path) -> list[Any]:
    return [trial["parameters"] for trial in json.loads((folder / "trials.json").read_text())]


def stop(count: int) -> None:
    if count == 4:
        raise KeyboardInterrupt


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_an_interrupted_search_goes_on_with_the_same_trials(tmp_path: Path, sampler: str) -> None:
    run_search(hill(), Hill(), tmp_path / "whole", trials=14, sampler=sampler)
    with pytest.raises(KeyboardInterrupt):
        run_search(hill(), Hill(stop), tmp_path / "cut", trials=14, sampler=sampler)
    assert len(tried(tmp_path / "cut")) == 3
    run_search(hill(), Hill(), tmp_path / "cut", trials=14, sampler=sampler)
    assert tried(tmp_path / "cut") == tried(tmp_path / "whole")
    assert len({point["temperature"] for point in tried(tmp_path / "whole")}) == 14


def test_more_trials_extend_a_search_and_the_same_number_adds_none(tmp_path: Path) -> None:
    run_search(hill(), Hill(), tmp_path, trials=3)
    again = Hill()
    run_search(hill(), again, tmp_path, trials=3)
    assert again.count == 0
    run_search(hill(), again, tmp_path, trials=5)
    assert again.count == 2


def test_minutes_bound_a_search(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has succeeded; there was no time for one"):
        run_search(hill(), Hill(), tmp_path, minutes=1e-9)


def test_tpe_finds_the_top_of_a_hill(tmp_path: Path) -> None:
    best = run_search(hill(), Hill(), tmp_path, trials=40)
    assert best.story["parameters"]["temperature"] == pytest.approx(0.3, abs=0.02)
    assert read_tuned(tmp_path / "best.yaml") == best


def test_every_point_of_a_small_space_is_tried_once(tmp_path: Path) -> None:
    space = hill(temperature="choose(0.1, 0.2, 0.5)", head="choose('cosine', 'linear')")
    best = run_search(space, Hill(), tmp_path, trials=20)
    points = tried(tmp_path)
    assert len(points) == 6 and len({json.dumps(point) for point in points}) == 6
    assert best.method == "finetune(temperature=0.2, head='cosine')"


def test_a_failed_trial_is_kept_with_its_reason(tmp_path: Path) -> None:
    def fail(count: int) -> None:
        if count == 2:
            raise UserError("The loss is not a number.")

    run_search(hill(), Hill(fail), tmp_path, trials=4)
    records = json.loads((tmp_path / "trials.json").read_text())
    assert [record["failed"] for record in records] == [None, "The loss is not a number.", None, None]
    assert records[1]["accuracy"] is None


def test_a_search_that_only_fails_stops_with_the_reason(tmp_path: Path) -> None:
    def fail(count: int) -> None:
        raise UserError("There is no such backbone.")

    with pytest.raises(
        UserError, match=r"The first 3 trials all failed; the last one: There is no such backbone\."
    ):
        run_search(hill(), Hill(fail), tmp_path, trials=20)


def test_a_folder_with_another_search_is_refused(tmp_path: Path) -> None:
    run_search(hill(), Hill(), tmp_path, trials=1)
    with pytest.raises(UserError, match=r"holds another search \(its space differ\)"):
        run_search(hill(temperature="uniform(0.1, 2)"), Hill(), tmp_path, trials=1)


@pytest.mark.parametrize("name", space_names())
def test_the_calls_of_a_named_space_exist(name: str) -> None:
    space = get_space(name)
    points = [space.reported] if space.reported else space.points(100)
    assert points
    for point in points:
        trial = space.trial(point)
        if trial.algorithm is not None:
            called, settings = parse_call(trial.algorithm)
            check_settings(called, settings, call_defaults(algorithm_class(called).__init__))
        if trial.method is not None:
            called, settings = parse_call(trial.method)
            check_settings(called, settings, call_defaults(method_class(called).__init__))


def test_the_spaces_of_the_vtab_md_paper() -> None:
    proto_maml = get_space("vtab-md-protomaml")
    assert {key: str(value) for key, value in proto_maml.parameters.items()} == {
        "backbone": "choose('resnet18', 'cnn4')",
        "resolution": "choose(84, 126)",
        "lr": "log(1e-06, 0.01)",
        "decay_every": "choose(100, 500, 1000, 2500, 5000, 10000)",
        "decay_rate": "uniform(0.5, 1.0)",
        "inner_lr": "log(0.005, 0.5)",
        "inner_steps": "choose(1, 6, 10)",
        "extra_steps": "choose(0, 5)",
    }
    assert proto_maml.trial(proto_maml.reported) == Trial(
        "protomaml(steps=10, lr=0.0054)",
        "protomaml(extra_steps=0)",
        {
            "network": "resnet18",
            "size": 126,
            "optimiser": "adam(lr=0.0004)",
            "schedule": "decay(every=1000, rate=0.6478)",
        },
    )
    transfer = get_space("vtab-md-transfer").parameters
    assert str(transfer["finetune_lr"]) == "choose(1e-05, 0.0001, 0.001, 0.01, 0.1, 0.2)"
    assert str(transfer["finetune_steps"]) == "choose(50, 75, 100, 125, 150, 175, 200)"
    assert str(transfer["scale"]) == "choose(1, 2, 10, 100)"
    assert set(transfer) == {
        "backbone", "resolution", "lr", "finetune_lr", "finetune_steps",
        "optimiser", "head", "scale", "weight_norm", "layers",
    }  # fmt: skip
    assert set(get_space("vtab-md-protonet").parameters) == {
        "backbone", "resolution", "lr", "decay_every", "decay_rate",
    }  # fmt: skip


def test_the_swap_gives_each_method_the_settings_of_the_other() -> None:
    variants = [point["variant"] for point in get_space("vtab-md-swap").points(10) or []]
    assert 'md-transfer(head="linear", lr=0.0054, steps=10)' in variants
    assert "protomaml(lr=0.01, steps=100)" in variants
    assert 'md-transfer(head="linear")' in variants
    assert len(variants) == 5


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0.1, 0.2", r"write choose\(a, b, …\), uniform\(low, high\) or log\(low, high\)"),
        ("log(0, 1)", "log takes two numbers above 0, the lower first"),
        ("uniform(2, 1)", "uniform takes two numbers, the lower first"),
        ("choose(os.system('x'))", "write choose"),
    ],
)
def test_a_wrong_range_is_told_in_a_sentence(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        parse_parameter("lr", text)


def test_a_space_of_ones_own_and_its_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    spaces = {"mine": {"method": "protonet(scale={s})", "parameters": {"s": "log(1, 10)"}}}
    path.write_text(yaml.safe_dump(spaces))
    assert get_space(str(path)).trial({"s": 2.5}).method == "protonet(scale=2.5)"
    path.write_text(yaml.safe_dump({"mine": {**spaces["mine"], "method": "protonet(scale={t})"}}))
    with pytest.raises(UserError, match="uses 't', but has no parameter of that name"):
        get_space(str(path))
    with pytest.raises(UserError, match="did you mean 'vtab-md-protonet'"):
        get_space("vtab-md-protnet")
    with pytest.raises(UserError, match="has no parameter 'size'; it has backbone, resolution"):
        get_space("vtab-md-protonet").fixed({"size": 28})


def test_tuned_settings_survive_their_file_and_mistakes_are_told(tmp_path: Path) -> None:
    path = tmp_path / "best.yaml"
    tuned = Tuned(
        method="protonet",
        algorithm="protonet(way=20)",
        train={"size": 28, "schedule": "cosine"},
        network="runs/a",
        story={"trial": "1 of 2"},
    )
    write_tuned(path, tuned)
    assert read_tuned(path) == tuned
    assert tuned_method(path) == "protonet"
    assert tuned_training(path) == ("protonet(way=20)", {"size": 28, "schedule": "cosine"})
    path.write_text("algoritm: protonet\n")
    with pytest.raises(UserError, match="has no setting 'algoritm'; did you mean 'algorithm'"):
        read_tuned(path)
    path.write_text("algorithm: protonet\n")
    with pytest.raises(UserError, match="names no method"):
        tuned_method(path)


def test_the_command_searches_a_method_on_testbeds(run_cli: RunCli, tmp_path: Path) -> None:
    bed, out = tmp_path / "validation.parquet", tmp_path / "found"
    run_cli("sample", "toybox", "--split", "validation", "--tasks", "5", "--query", "4", "-o", bed)
    search = ("tune", "protonet", bed, "--backbone", "pixels", "-o", out)
    shown = run_cli(*search, "--search", "distance=choose('euclidean', 'cosine')").stdout
    assert "2 trials; the best one:" in shown
    accuracies = [trial["accuracy"] for trial in json.loads((out / "trials.json").read_text())]
    best = read_tuned(out / "best.yaml")
    assert best.story["validation_accuracy"] == pytest.approx(max(accuracies), abs=1e-5)
    assert get_method(tuned_method(out / "best.yaml")).name == "protonet"
    missing = run_cli("tune", "vtab-md-swap", bed, "-o", out, check=False)
    assert missing.returncode == 2 and "name one: --backbone NAME" in missing.stderr


def test_the_command_trains_every_trial_and_shares_networks(run_cli: RunCli, tmp_path: Path) -> None:
    space, out = tmp_path / "space.yaml", tmp_path / "found"
    space.write_text(
        "small:\n  algorithm: protonet(query={query})\n  method: protonet(distance={distance})\n"
        "  parameters:\n    query: choose(2, 3)\n    distance: choose('euclidean', 'cosine')\n"
    )
    sets = ["steps=2", "size=16", "network=cnn4(width=4)", "validation_tasks=4", "way=3", "shot=1"]
    options = [part for setting in sets for part in ("--set", setting)]
    run_cli("tune", space, "toybox", "--fix", "query=2", *options, "-o", out)
    assert len(list((out / "networks").iterdir())) == 1
    best = read_tuned(out / "best.yaml")
    assert best.algorithm == "protonet(query=2)"
    assert best.train["size"] == 16
    assert best.network is not None and (Path(best.network) / "network.safetensors").exists()
    wrong = run_cli("tune", space, "toybox", "--set", "sise=3", "-o", out, check=False)
    assert wrong.returncode == 2 and "Training has no setting 'sise'" in wrong.stderr


@pytest.mark.parametrize(
    ("space", "data", "options", "words"),
    [
        ("vtab-md-protonet", "a.parquet", {}, "trains networks, so it needs a dataset, not a.parquet"),
        (
            "vtab-md-swap",
            "toybox",
            {},
            "validation tasks (.parquet, from longshot.sample(DATASET, ",
        ),
        ("vtab-md-swap", "a.parquet", {}, "through a fixed backbone; name one: backbone=NAME."),
        (
            "vtab-md-swap",
            "a.parquet",
            {"backbone": "pixels", "settings": {"size": 3}},
            "settings is for searches that",
        ),
        ("vtab-md-protonet", "toybox", {"backbone": "pixels"}, "makes its own networks; leave backbone out."),
        (
            "vtab-md-protonet",
            "toybox",
            {"settings": {"stepz": 3}},
            "no setting 'stepz' for settings; did you mean",
        ),
        ("vtab-md-protonet", ["a", "b"], {}, "takes 1 dataset, not 2."),
    ],
)
def test_what_does_not_go_together_is_told(
    tmp_path: Path, space: str, data: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError) as caught:
        tune(space, data, out=tmp_path / "run", **options)
    assert words in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_search_from_python(photos: Path, tmp_path: Path, fresh_cache: Path) -> None:
    """Both faces find the same: the best of the rows is the best, and the file says it."""
    bed = tmp_path / "validation.parquet"
    longshot.sample(photos, tasks=5, shape=longshot.FixedShape(way=3, shot=1, query=4), seed=1).save(bed)
    ranges = {"distance": "choose('euclidean', 'cosine')"}
    result = longshot.tune(
        "protonet", bed, backbone="pixels", search=ranges, out=tmp_path / "run", device="cpu"
    )
    assert [trial["parameters"]["distance"] for trial in result.trials] == ["euclidean", "cosine"]
    best = max(trial["accuracy"] for trial in result.trials)
    assert result.best.story["validation_accuracy"] == pytest.approx(best, abs=1e-5)
    assert read_tuned(result.path / "best.yaml").method == result.best.method
    assert len(repr(result).splitlines()) <= 5
    features = longshot.embed(photos, "pixels", device="cpu")
    again = longshot.tune("protonet", bed, backbone=features.array[:], search=ranges, out=tmp_path / "array")
    assert [trial["accuracy"] for trial in again.trials] == [trial["accuracy"] for trial in result.trials]


def test_the_list_of_spaces_names_the_tables(run_cli: RunCli) -> None:
    shown = run_cli("tune", "--list").stdout
    assert "table 1" in shown and "table 2" in shown and "table 3" in shown and "appendix C" in shown
