"""competition.yaml: what it may hold, what phases inherit, and one sentence for every mistake."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
import yaml

from longshot.arena import Competition, check_bundle, create, load, make_submission
from longshot.arena.entry_rules import timetable, undated
from longshot.arena.settings import FILE, CompetitionShape, RunLimits, parse_time
from longshot.arena.submission_runs import SubmissionFailed
from longshot.base import UserError
from longshot.cli import ShellFace

PLAIN: dict[str, Any] = {
    "title": "cup",
    "datasets": {"one": "a.npz", "two": "b.npz"},
    "phases": {"feedback": {"train": ["one"], "test": ["two"]}},
}


def read(tmp_path: Path, values: Any) -> Competition:
    (tmp_path / FILE).write_text(
        values if isinstance(values, str) else yaml.safe_dump(values, sort_keys=False)
    )
    return load(tmp_path)


def with_phase(**settings: Any) -> dict[str, Any]:
    return {**PLAIN, "phases": {"feedback": {**PLAIN["phases"]["feedback"], **settings}}}


def test_everything_but_data_has_a_default(tmp_path):
    competition = read(tmp_path, PLAIN)
    phase = competition.phases[0]
    assert competition.folder == tmp_path and competition.final is phase
    assert (competition.image_size, competition.isolation, competition.pools) == (128, "task", "disjoint")
    assert (competition.draws, competition.pseudonyms) == ("fixed", True)
    assert competition.leagues == ("free-style", "meta-learning")
    assert (competition.fact_sheet, competition.database) == ("optional", "")
    assert competition.fact_fields == ("title", "authors", "summary", "pretrained", "data", "code")
    assert competition.shape.model_dump() == {
        "min_way": 2,
        "max_way": 20,
        "min_shot": 1,
        "max_shot": 20,
        "query": 20,
    }
    assert (phase.tasks, phase.seeds, phase.per_day, phase.total) == (100, (1,), 2, 100)
    assert (phase.submissions, phase.start, phase.end) == (True, None, None)
    assert (phase.threshold, phase.review_days) == ({}, 0)
    assert phase.limits.model_dump() == {
        "seconds": 18_000.0,
        "cpu_seconds": 0.0,
        "memory": 8_589_934_592,
        "processes": 64,
        "disk": 1_073_741_824,
        "files": 20_000,
        "log": 1_048_576,
        "answer": 67_108_864,
        "cores": 0,
    }


def test_a_phase_has_the_limits_of_the_file_but_for_its_own(tmp_path):
    values = with_phase(limits={"seconds": 7, "log": 5})
    values["limits"] = {"seconds": 9.5, "disk": 4096}
    values["phases"]["final"] = {"train": "one", "test": "two"}
    first, final = read(tmp_path, values).phases
    assert first.limits == RunLimits(seconds=7.0, disk=4096, log=5)
    assert final.limits == RunLimits(seconds=9.5, disk=4096)


def test_a_single_value_stands_for_a_list_of_one(tmp_path):
    competition = read(tmp_path, {**with_phase(train="one", test="two", seeds=4), "leagues": "women"})
    assert (competition.phases[0].train, competition.phases[0].test) == (("one",), ("two",))
    assert (competition.phases[0].seeds, competition.leagues) == ((4,), ("women",))


def test_dates_with_and_without_quotes(tmp_path):
    text = yaml.safe_dump(with_phase()) + "\n"
    text = text.replace("feedback:\n", 'feedback:\n    start: 2027-06-15 12:00:00\n    end: "2027-09-01"\n')
    phase = read(tmp_path, text).phases[0]
    assert (phase.start, phase.end) == ("2027-06-15 12:00:00", "2027-09-01")
    assert parse_time("2027-09-01", "").isoformat() == "2027-09-01T00:00:00+00:00"
    assert parse_time("2027-09-01 12:00+02:00", "").isoformat() == "2027-09-01T12:00:00+02:00"


def test_bounds_may_be_met(tmp_path):
    shape = {"min_way": 2, "max_way": 2, "min_shot": 1, "max_shot": 1, "query": 1}
    competition = read(tmp_path, {**with_phase(tasks=1), "shape": shape})
    assert competition.shape == CompetitionShape(**shape)


MISTAKES: dict[str, tuple[Any, str]] = {
    "no mapping": ("- 1\n", "{file} must hold settings by name, but it holds list."),
    "no phases": (
        {**PLAIN, "phases": {}},
        "{file} has no phases and at least 1 is needed; name one below 'phases', as in feedback.",
    ),
    "unknown": ({**PLAIN, "titel": "x"}, "{file} has no setting 'titel'; did you mean 'title'?"),
    "missing": (
        {key: value for key, value in PLAIN.items() if key != "title"},
        "{file} lacks the setting 'title'; add it.",
    ),
    "kind": ({**PLAIN, "title": 3}, "{file} has the setting title = 3, but it must be text."),
    "no truth": (
        {**PLAIN, "image_size": True},
        "{file} has the setting image_size = True, but it must be a whole number.",
    ),
    "league": (
        {**PLAIN, "leagues": ["chess"]},
        "{file} has the setting leagues.0 = 'chess', but it must be 'free-style', 'meta-learning', 'new-in-ml', "
        "'women' or 'rarely-represented-country'.",
    ),
    "one way": (
        {**PLAIN, "shape": {"min_way": 1}},
        "{file} has the setting shape.min_way = 1, but it must be a whole number of 2 or more.",
    ),
    "no shots": (
        {**PLAIN, "shape": {"min_shot": 0}},
        "{file} has the setting shape.min_shot = 0, but it must be a whole number above 0.",
    ),
    "no queries": (
        {**PLAIN, "shape": {"query": 0}},
        "{file} has the setting shape.query = 0, but it must be a whole number above 0.",
    ),
    "ways upside down": (
        {**PLAIN, "shape": {"min_way": 5, "max_way": 4}},
        "{file} has the setting shape = {{'min_way': 5, 'max_way': 4}}, but min_way 5 must not exceed max_way 4.",
    ),
    "shots upside down": (
        {**PLAIN, "shape": {"min_shot": 3, "max_shot": 2}},
        "{file} has the setting shape = {{'min_shot': 3, 'max_shot': 2}}, but min_shot 3 must not exceed max_shot 2.",
    ),
    "limits of the file": (
        {**PLAIN, "limits": {"memory": 0}},
        "{file}, limits, has the setting memory = 0, but it must be a whole number above 0.",
    ),
    "unknown limit": (
        {**PLAIN, "limits": {"second": 1}},
        "{file}, limits, has no setting 'second'; did you mean 'seconds'?",
    ),
    "endless": (
        {**PLAIN, "limits": {"seconds": float("inf")}},
        "{file}, limits, has the setting seconds = inf, but it must be a finite number above 0.",
    ),
    "limits of a phase": (
        with_phase(limits={"seconds": -1}),
        "{file}, phase 'feedback', has the setting limits.seconds = -1, but it must be a number above 0.",
    ),
    "unknown limit of a phase": (
        with_phase(limits={"dsk": 1}),
        "{file}, phase 'feedback', has no setting 'limits.dsk'; did you mean 'disk'?",
    ),
    "processor time": (
        with_phase(limits={"cpu_seconds": -1}),
        "{file}, phase 'feedback', has the setting limits.cpu_seconds = -1, but it must be a number of 0 or more.",
    ),
    "unknown in a phase": (
        with_phase(taks=3),
        "{file}, phase 'feedback', has no setting 'taks'; did you mean 'tasks'?",
    ),
    "no tasks": (
        with_phase(tasks=0),
        "{file}, phase 'feedback', has the setting tasks = 0, but it must be a whole number above 0.",
    ),
    "a date": (
        with_phase(start="soon"),
        "{file}, phase 'feedback', names the time 'soon', which is no date and time such as '2027-06-15 12:00'.",
    ),
    "no dataset to test on": (
        with_phase(test=[]),
        "{file}, phase 'feedback', has 1 datasets to train and 0 to test on; at least 1 of each is needed.",
    ),
    "no dataset to train on": (
        with_phase(train=[]),
        "{file}, phase 'feedback', has 0 datasets to train and 1 to test on; at least 1 of each is needed.",
    ),
    "a dataset": (
        with_phase(train=["three"]),
        "{file}, phase 'feedback', names the dataset 'three', which is not among one, two.",
    ),
    "seen": (
        with_phase(train=["one", "two"]),
        "{file}, phase 'feedback', trains and tests on 'two'; a test set must be unseen.",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence(tmp_path, mistake):
    values, sentence = MISTAKES[mistake]
    with pytest.raises(UserError) as caught:
        read(tmp_path, values)
    assert str(caught.value) == sentence.format(file=tmp_path / FILE)


def test_no_seeds_are_no_runs(tmp_path):
    with pytest.raises(UserError, match=r"phase 'feedback', has the setting seeds = \[\], but "):
        read(tmp_path, with_phase(seeds=[]))


def test_what_is_no_yaml(tmp_path):
    with pytest.raises(UserError, match="is not YAML that can be read: while parsing a flow sequence"):
        read(tmp_path, "title: [unclosed")


def test_no_file_names_what_makes_one(tmp_path):
    with pytest.raises(UserError) as caught:
        load(tmp_path)
    fact = f"There is no {FILE} in {tmp_path}; make a competition with "
    assert str(caught.value) == f'{fact}longshot.competition.create("{tmp_path}").'
    assert caught.value.render(ShellFace()) == f"{fact}'longshot compete init {tmp_path}'."


def test_every_call_that_an_error_names_is_a_command(tmp_path, competition):
    with pytest.raises(UserError) as caught:
        check_bundle(tmp_path / "no.zip")
    assert caught.value.render(ShellFace()) == (
        f"There is no bundle at {tmp_path / 'no.zip'}; write one with 'longshot compete bundle FOLDER -o FILE'."
    )
    assert str(caught.value).endswith("write one with longshot.competition.export_bundle(FOLDER, out=FILE).")
    with pytest.raises(UserError) as caught:
        make_submission("pixels", tmp_path / "out", backbone="pixels")
    assert caught.value.render(ShellFace()) == (
        "'pixels' is a network already, so --backbone pixels has no place; name the method first, as in protonet."
    )


def test_what_a_submission_says_is_shown_as_it_is():
    error = SubmissionFailed('it failed: print(f"{way} {tasks:600}")')
    assert error.render(ShellFace()) == str(error) == 'it failed: print(f"{way} {tasks:600}")'


def test_a_new_competition_is_what_was_asked_for(tmp_path):
    made = create(tmp_path / "cup", title="Cup", tasks=3, minutes=1.5, image_size=32)
    assert made == load(tmp_path / "cup")
    assert (made.title, made.image_size, len(made.datasets)) == ("Cup", 32, 10)
    assert [(phase.name, phase.tasks, phase.seeds) for phase in made.phases] == [
        ("public", 10, (1,)),
        ("feedback", 3, (1,)),
        ("final", 3, (1, 2, 3)),
    ]
    public, feedback, final = made.phases
    assert not public.submissions and feedback.submissions
    assert public.train == ("animals", "buildings", "crockery") and public.test == ("fish", "flowers")
    assert feedback.train == final.train == (*public.train, *public.test)
    assert (feedback.test, final.test) == (("fruits", "furniture"), ("insects", "tools", "vehicles"))
    assert feedback.limits.seconds == final.limits.seconds == 90
    assert feedback.limits.memory == 8 << 30
    assert (feedback.per_day, feedback.total, final.review_days) == (2, 100, 14)
    with pytest.raises(
        UserError,
        match="only a new or empty folder is taken for a competition; choose an empty or new folder",
    ):
        create(tmp_path / "cup")


def test_a_new_competition_has_dates(tmp_path):
    """Feedback is open at once, and the final begins as it ends: nobody enters that before its time."""
    public, feedback, final = create(tmp_path / "cup", start="2027-06-15 12:00", days=10).phases
    assert (feedback.start, feedback.end) == ("2027-06-15 12:00", "2027-06-25 12:00")
    assert (final.start, final.end) == ("2027-06-25 12:00", "2027-07-02 12:00")
    assert (public.start, public.end) == (feedback.start, final.end)
    made = create(tmp_path / "today")
    assert [phase.state for phase in timetable(made)] == ["open", "open", "coming"]
    assert undated(made) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"start": "soon"},
            "start names the time 'soon', which is no date and time such as '2027-06-15 12:00'.",
        ),
        ({"days": 0}, "The feedback phase would last 0 days and needs at least 1; raise days."),
        (
            {"start": "2027-06-15", "days": 10**7},
            "10,000,000 days from 2027-06-15 on lead beyond the year 9999; lower days.",
        ),
    ],
)
def test_dates_that_are_none(tmp_path, settings, sentence):
    with pytest.raises(UserError) as caught:
        create(tmp_path / "cup", **settings)
    assert str(caught.value) == sentence and not (tmp_path / "cup").exists()


@pytest.mark.parametrize(
    ("dates", "words"),
    [
        ({}, "no start and no end; write start and end"),
        ({"start": "2020-01-01"}, "no end; write end"),
        ({"end": "2030-01-01"}, "no start; write start"),
        ({"start": "2020-01-01", "end": "2030-01-01"}, ""),
        ({"start": "2029-01-01"}, ""),  # not open yet
        ({"end": "2021-01-01"}, ""),
        ({"submissions": False}, ""),
    ],
)
def test_a_phase_that_is_open_without_a_date_is_told(tmp_path, dates, words):
    phases = {"feedback": {"train": ["one"], "test": ["two"], **dates}}
    notes = undated(read(tmp_path, {**PLAIN, "phases": phases}), dt.datetime(2027, 1, 1, tzinfo=dt.UTC))
    expected = (
        f"phase 'feedback' takes submissions now and has {words} into competition.yaml, as in "
        "'2027-06-15 12:00' (UTC)"
    )
    assert notes == ([expected] if words else [])


def test_the_competition_of_the_paper(tmp_path):
    made = create(tmp_path / "cup", preset="cross-domain-metadl", start="2022-06-15")
    public, feedback, final = made.phases
    assert (public.public, feedback.public) == (True, False)
    assert (feedback.limits.seconds, final.limits.seconds) == (5 * 3600, 9 * 3600)
    assert [len(feedback.test) * feedback.tasks, len(final.test) * final.tasks] == [1000, 6000]
    assert final.threshold == {"free-style": 0.587, "meta-learning": 0.361}
    assert (feedback.per_day, feedback.total, final.seeds) == (2, 100, (1, 2, 3))
    assert len(made.datasets) == 30 and len(made.leagues) == 5
    assert not {*feedback.train} & {*feedback.test} and not {*final.test} & {*feedback.test}
