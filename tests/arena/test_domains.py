"""Which domains a competition trains and tests on: what each setting allows, with counts, and where it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from longshot.arena import Competition, create, load
from longshot.arena.bundle_write import bundle_pages
from longshot.arena.domains import META_ALBUM, domain, domain_sentence, phase_domains
from longshot.arena.ranking import leaderboard_page
from longshot.arena.settings import FILE
from longshot.arena.store import Store
from longshot.base import UserError

DATASETS = {"sparrows": "birds.npz", "gulls": "sea.npz", "vans": "vans.npz", "oaks": "trees.npz"}
DOMAIN_OF = {"sparrows": "animals", "gulls": "animals", "vans": "vehicles", "oaks": "plants"}


def read(
    folder: Path, domains: str | None, train: list[str], test: list[str], **settings: Any
) -> Competition:
    values = {
        "title": "cup",
        "datasets": DATASETS,
        "domain_of": DOMAIN_OF,
        "domains": domains,
        **settings,
        "phases": {"final": {"train": train, "test": test}},
    }
    (folder / FILE).write_text(
        yaml.safe_dump({key: value for key, value in values.items() if value is not None})
    )
    return load(folder)


@pytest.mark.parametrize(
    ("domains", "train", "test", "sentence"),
    [
        (
            "independent",
            ["sparrows", "gulls", "oaks"],
            ["vans"],
            "Domain-independent: the test tasks are of 1 domain, none of them among the 2 domains of training.",
        ),
        (
            "cross",
            ["sparrows", "vans"],
            ["gulls"],
            "Cross-domain: the test tasks are of 1 domain, each among the 2 domains of training.",
        ),
        (
            "within",
            ["sparrows"],
            ["gulls"],
            "Within-domain: training and test tasks are of one domain, animals.",
        ),
        (None, ["sparrows"], ["gulls"], ""),
    ],
)
def test_what_each_setting_allows(tmp_path, domains, train, test, sentence):
    competition = read(tmp_path, domains, train, test)
    assert competition.domains == domains
    assert domain_sentence(competition, competition.final) == sentence


@pytest.mark.parametrize(
    ("domains", "train", "test", "words"),
    [
        (
            "independent",
            ["sparrows", "oaks"],
            ["gulls", "vans"],
            r"phase 'final', tests on 2 domains and 1 of them are among the 2 of training \('animals'\), but 'domains: "
            "independent' means none; leave the datasets of these domains out on one side",
        ),
        (
            "cross",
            ["sparrows"],
            ["gulls", "vans", "oaks"],
            r"tests on 3 domains and 2 of them are not among the 1 of training \('vehicles', 'plants'\)",
        ),
        (
            "within",
            ["sparrows"],
            ["vans"],
            r"has datasets of 2 domains \('animals', 'vehicles'\), but .* means 1",
        ),
        (
            "sequel",
            ["sparrows"],
            ["vans"],
            "domains = 'sequel', but it must be 'within', 'cross' or 'independent'",
        ),
    ],
)
def test_domains_that_are_not_as_said(tmp_path, domains, train, test, words):
    with pytest.raises(UserError, match=words):
        read(tmp_path, domains, train, test)


def test_a_dataset_without_a_domain_is_named(tmp_path):
    words = (
        r"Phase 'final' uses 2 datasets and 1 of them have no domain \('vans'\); name it below 'domain_of' in "
        "competition.yaml, as in 'birds: animals'"
    )
    with pytest.raises(UserError, match=words):
        read(tmp_path, "independent", ["sparrows"], ["vans"], domain_of={"sparrows": "animals"})
    with pytest.raises(UserError, match="domain_of, names the dataset 'vams', which is not among gulls"):
        read(tmp_path, None, ["sparrows"], ["vans"], domain_of={"vams": "vehicles"})


def test_a_branch_is_a_domain_and_meta_albums_are_known(tmp_path):
    datasets = {"a": "toybox#fish/sea", "b": "toybox#tools", "DOG": "dogs", "MD_6": "digits", "BRD": "birds"}
    competition = read(tmp_path, "independent", ["a", "DOG"], ["b", "MD_6"], datasets=datasets, domain_of={})
    names = {name: domain(competition, name) for name in datasets}
    assert names == {
        "a": "fish",
        "b": "tools",
        "DOG": "large animals",
        "MD_6": "characters",
        "BRD": "large animals",
    }
    with pytest.raises(UserError, match=r"1 of them are among the 2 of training \('large animals'\)"):
        read(tmp_path, "independent", ["a", "DOG"], ["b", "BRD"], datasets=datasets, domain_of={})
    assert len(META_ALBUM) == 30
    assert {list(META_ALBUM.values()).count(name) for name in META_ALBUM.values()} == {3}  # one of each set


@pytest.mark.parametrize(("first", "second"), [("toybox#fish", "toybox#fish"), ("toybox", "toybox#fish")])
def test_the_same_classes_under_two_names_are_refused(tmp_path, first, second):
    """Whatever domains they are said to be of."""
    datasets, domain_of = {"a": first, "b": second}, {"a": "fish", "b": "tools"}
    with pytest.raises(UserError, match=r"trains on 'a' \(toybox.*\) and tests on 'b' .*classes in common"):
        read(tmp_path, "independent", ["a"], ["b"], datasets=datasets, domain_of=domain_of)


def test_the_toybox_competition_is_domain_independent_and_its_pages_say_so(tmp_path):
    competition = create(tmp_path / "cup")
    assert competition.domains == "independent"
    groups = phase_domains(competition, competition.final)
    assert (len(groups.train), len(groups.test), groups.shared) == (5, 3, [])
    sentence = (
        "Domain-independent: the test tasks are of 3 domains, none of them among the 5 domains of training."
    )
    text = leaderboard_page(competition, Store(competition), "final")
    assert sentence in text
    assert "<h2>Domains</h2>" in text
    overview = bundle_pages(competition, [competition.final], 0, 3)["overview.md"]
    assert f"of which the worst counts. {sentence}" in overview


def test_a_competition_that_does_not_say_shows_nothing_of_domains(tmp_path):
    competition = read(tmp_path, None, ["sparrows"], ["gulls"], domain_of={})
    assert "Domains" not in leaderboard_page(competition, Store(competition), "final")
    assert "domain" not in bundle_pages(competition, [competition.final], 0, 1)["overview.md"]


def test_the_command_line_tells_the_mistake(tmp_path, run_cli):
    run_cli("compete", "init", tmp_path / "cup")
    path = tmp_path / "cup" / FILE
    path.write_text(path.read_text().replace("domains: independent", "domains: cross"))
    done = run_cli("compete", "status", tmp_path / "cup", check=False)
    assert (
        "phase 'public', tests on 2 domains and 2 of them are not among the 3 of training ('fish', 'flowers')"
        in done.stderr
    )
