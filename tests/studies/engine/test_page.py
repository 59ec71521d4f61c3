"""The page of a study: escaped, small, with an anchor for every claim and table; read on a phone and in the dark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from longshot.reports import Sheet, heads, row
from longshot.studies import Claim, Comparison, Measured, Picture, Side, TableFile, get_study, run_study
from longshot.studies.engine import study_page as module
from longshot.studies.engine.claims import judge
from longshot.studies.engine.study_page import Findings, study_page
from longshot.studies.engine.study_training import TrainingRecord

EVIL = "<script>alert('x')</script>"


def findings(**more: Any) -> Findings:
    number = Measured(f"of {EVIL}", 0.1, 0.08, 0.12, 1e-9, 50, 0.2)
    claim: Claim[None] = Claim("up", f"It rises {EVIL}", "table 1", lambda _: [number], factor="method")
    sheet = Sheet(
        f"Title {EVIL}", [*heads("name"), *heads("a", "b", group="group")], [[row("x", "1", "2")]], "n", 1
    )
    sides = [Side("one", method="protonet"), Side("two", method="ridge", more={})]
    options: dict[str, Any] = {
        "tables": [TableFile("numbers", [sheet], [{"a": 1}], [f"line {EVIL}"])],
        "figures": {},
        "claims": judge([claim], None),
        "comparisons": [Comparison("Methods", "method", sides)],
        "absent": [f"no {EVIL}"],
        "question": f"Why {EVIL}?",
    }
    return Findings(**{**options, **more})


def made(out: Path, **more: Any) -> str:
    data: Any = SimpleNamespace(
        name=EVIL, class_ids=("a",), splits={}, taxonomy=None, fingerprint="abc", __len__=lambda: 1
    )
    data = type("Data", (), {**vars(data), "__len__": lambda self: 1})()
    return study_page(get_study("many-way-small"), f"T {EVIL}", out, findings(**more), [data])


def test_everything_is_escaped_and_has_its_anchor(tmp_path: Path) -> None:
    text = made(tmp_path)
    assert "<script>alert" not in text and text.count("&lt;script&gt;alert") >= 8
    for anchor in ("claim-up", "table-numbers", "comparison-1", "rule"):
        assert f'id="{anchor}"' in text
    assert "confirmed" in text and "+10.0 [+8.0, +12.0]" in text and "+20.0" in text
    assert '<th scope="colgroup" colspan="2" class="over">group</th>' in text


def test_page_and_table_say_which_tasks_and_classes_the_verdicts_are_for(tmp_path: Path) -> None:
    sentence = "for other tasks of these classes, or for other splits, classes or images where a number says"
    rule = made(tmp_path).partition('id="rule"')[2]
    assert sentence in rule and "do not say that a claim holds for other classes like these" in rule
    assert sentence in findings().all_tables()[0].texts()["claims.md"]


def test_figures_beyond_the_budget_are_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "figures").mkdir()
    for name in ("first", "second"):
        for suffix in (".svg", ".png"):
            (tmp_path / "figures" / f"{name}{suffix}").write_bytes(b"<svg/>" * 100)
    monkeypatch.setattr(module, "_ALL_FIGURES", 1000)
    drawings = {name: Picture(f"What {name} shows", lambda _: None) for name in ("first", "second")}
    text = made(tmp_path, figures=drawings)
    assert text.count("data:image/svg+xml;base64") == 1
    assert "What second shows" in text and text.count("not in the page, which stays small") == 1
    monkeypatch.setattr(module, "_LARGE", 10)  # a heavy drawing is shown as PNG
    assert "data:image/png;base64" in made(tmp_path, figures=drawings)


def test_a_training_that_hit_its_ceiling_is_marked(tmp_path: Path) -> None:
    record = TrainingRecord("maml", str(tmp_path), 400, 1.0, 120, 100, 60.0, 0.5, ceiling=True)
    text = made(tmp_path, trainings={"maml": record})
    assert "at the ceiling in time" in text and ">400<" in text and ">120<" in text
    assert "at the ceiling in time" not in made(tmp_path)


@pytest.mark.browser
def test_long_names_and_settings_fit_a_phone(browser: Any, tmp_path: Path) -> None:
    path = f"/data/{'long-folder-name/' * 8}trainings/group-7aa49792"
    settings = {"approach": {"backbone": {"training": {"1": {"algorithm": {"smoothing": 0.0}}}}}}
    sides = [Side(label, method="protonet", backbone=label, more=settings) for label in ("group", path)]
    compared = [Comparison("Networks", "backbone", sides)]
    text = made(tmp_path, absent=[f"no {path}"], notes=[path], comparisons=compared)
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


@pytest.mark.long
@pytest.mark.browser
def test_the_page_is_read_on_a_phone_and_in_the_dark(browser: Any, better: Path) -> None:
    for width, scheme in ((390, "light"), (1280, "dark")):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text))  # noqa: B023
        page.goto((better / "report.html").as_uri())
        assert (
            page.evaluate("document.documentElement.scrollWidth") <= width
        )  # tables scroll inside their box
        shown = page.inner_text("main")
        for text in (
            "The semantic testbed is harder than the uniform one",
            "What is absent, and why",
            "The rule.",
        ):
            assert text in shown
        broken = page.evaluate(
            "[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href').slice(1))"
            ".filter(id => !document.getElementById(id))"
        )
        assert not broken and not errors
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 26)"
        assert dark == (scheme == "dark")
        page.close()


def test_a_dataset_known_by_names_is_told(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSHOT_IDENTITY", "names")
    changes = {
        "ways": [2],
        "shots": [1],
        "tasks": 4,
        "query": 2,
        "methods": ["protonet"],
        "backbone": "pixels",
    }
    outcome = run_study("many-way-small", photos, out=tmp_path / "study", settings=changes, workers=1)
    sentence = f"{photos.name} is known by the names of its images alone"
    assert outcome.notes[0].startswith(sentence)
    assert sentence in (outcome.path / "report.html").read_text(encoding="utf-8")
    assert sentence in (outcome.path / "study.json").read_text(encoding="utf-8")
