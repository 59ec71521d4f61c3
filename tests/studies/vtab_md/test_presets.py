"""Small presets of VTAB+MD on a made-up dataset: all plan their rows, some train and fill their tables in few steps."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from longshot.data import Dataset
from longshot.evaluation import Results
from longshot.models import backbone_parts
from longshot.studies import Study, get_study, layered, study_names
from longshot.studies.engine.presets import run_opened
from longshot.studies.vtab_md.vtab_md_networks import make_networks, make_rows
from longshot.studies.vtab_md.vtab_md_recipe import vtab_claims
from longshot.studies.vtab_md.vtab_md_scores import CONSTANT
from longshot.studies.vtab_md.vtab_md_sources import VtabSettings, cut_dataset

from .conftest import CLASSES

SMALL = [name for name in study_names() if name.startswith("vtab-md-")]
TINY = {"tasks": 2, "max_way": 5, "max_query": 2, "max_support": 10, "train": 20, "validation": 6}
# figures of a preset's own numbers; those of the paper's depend on its tables
DRAWN = {
    "vtab-md-small": {"figure-1", "figure-2", "figure-4", "figure-7"},
    "vtab-md-medium": {"figure-1", "figure-2", "figure-4", "figure-7"},
    "vtab-md-norm-small": {"figure-6"},
    "vtab-md-scale-small": {"figure-3"},
    "vtab-md-upstream-small": {"figure-4", "figure-5"},
    "vtab-md-swap-small": {"figure-8"},
    "vtab-md-sur-small": {"figure-9"},
}


def shrunk(study: Study) -> Study:
    """The preset with the same networks and rows, trained for two steps and fine-tuned for one."""
    settings = study.settings.plain()
    short = {"steps": 2, "validation_tasks": 2}
    changes = {
        **TINY,
        "cut": {**settings["cut"], "md": 1, "images": None},
        "networks": {name: {**network, **short} for name, network in settings["networks"].items()},
        "rows": {
            name: {**row, "md": _quick(row["md"]), "vtab": list(dict.fromkeys(map(_quick, row["vtab"])))}
            for name, row in settings["rows"].items()
        },
    }
    return layered(study, None, changes)


def _quick(call: str) -> str:
    from longshot.base import format_call, parse_call

    name, settings = parse_call(call)
    quick = {**settings, "steps": 1} if name in ("bit", "md-transfer", "protomaml") else settings
    return format_call(name, quick)


@pytest.mark.parametrize("name", SMALL)
def test_a_small_preset_can_have_all_its_rows(name: str, squares: Dataset) -> None:
    study = shrunk(get_study(name))
    settings = study.settings
    assert isinstance(settings, VtabSettings)
    networks, rows, notes = make_networks(
        settings, make_rows(settings), cut_dataset(squares, settings.cut, 0)
    )
    assert [row.name for row in rows] == list(settings.rows)
    assert all(
        note.startswith("The network 'ablated' is trained without 6 classes related to") for note in notes
    )
    used = {part for row in rows for part in backbone_parts(row.backbone)}
    assert used <= set(networks)  # a small preset trains whatever it shows


@pytest.mark.parametrize("name", ["vtab-md-upstream-small"])
def test_a_small_preset_trains_and_compares(name: str, squares: Dataset, tmp_path: Path) -> None:
    study = shrunk(get_study(name))
    settings = study.settings
    assert isinstance(settings, VtabSettings)
    sources = cut_dataset(squares, settings.cut, 0)
    outcome = run_opened(study, sources, tmp_path / "out", device="cpu", workers=1)
    stems = {table.stem for table in outcome.tables}
    against = {"differences"} if settings.against else set()
    assert stems >= {"aggregate", "sources"} | against
    with (tmp_path / "out" / "tables" / "sources.csv").open(encoding="utf-8", newline="") as file:
        measured = [row for row in csv.DictReader(file) if row["row"] != CONSTANT]
    tested = [source for source in sources if source.role != "upstream"]
    assert len(tested) == 5  # a branch, four big episodes
    assert len(measured) == len(tested) * len(settings.rows)  # no row is left out
    figures = {Path(path).stem for path in outcome.figures}
    assert DRAWN[name] <= figures
    sidecars = (tmp_path / "out" / "trainings").glob("*/network.json")
    trained = {path.parent.name.rpartition("-")[0]: json.loads(path.read_text()) for path in sidecars}
    classes = {network: facts["training"]["train classes"] for network, facts in trained.items()}
    assert classes == {"all": 12, "ablated": 6, "related": 6}
    assert all(facts["training"]["step"] <= 2 for facts in trained.values())


def test_every_small_preset_is_here() -> None:
    assert set(DRAWN) == set(SMALL)


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize("name", [name for name in SMALL if name.endswith("-small")])
def test_a_small_preset_runs_on_toybox_and_its_page_holds_the_study(
    name: str, run_cli: Any, browser: Any, tmp_path: Path
) -> None:
    """As it is, through the real command; every claim with a verdict stands on a page that fits a phone."""
    run_cli("study", "run", name, "toybox", "-o", tmp_path / "out")
    report = tmp_path / "out" / "report.html"
    assert report.stat().st_size < 3_000_000
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    text = page.inner_text("body")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    settings = get_study(name).settings
    assert isinstance(settings, VtabSettings)
    claims = vtab_claims(settings)
    assert claims and all(claim.sentence in text and claim.where in text for claim in claims)
    assert all(row in text for row in settings.rows)
    page.close()


def test_an_ablation_that_removes_nothing_is_left_out_and_said(squares: Dataset, tmp_path: Path) -> None:
    """Test classes of branches of their own share nothing with the train classes: 'ablated' would be 'all' again."""
    parts = {"animals": ("test",) * CLASSES, "tools": ("train",) * 11 + ("validation",) * 5}
    splits = {
        split: tuple(
            f"{branch}/{n:02d}"
            for branch, own in parts.items()
            for n, each in enumerate(own)
            if each == split
        )
        for split in ("train", "validation", "test")
    }
    study = shrunk(get_study("vtab-md-upstream-small"))
    settings = study.settings
    assert isinstance(settings, VtabSettings)
    sources = cut_dataset(replace(squares, splits=splits), settings.cut, 0)
    outcome = run_opened(study, sources, tmp_path / "out", device="cpu", workers=1)
    sentence = (
        "The row 'BiT (class-ablated)' is left out: its network 'ablated' is trained without the classes of "
        "'squares-animals', but none of its 11 train classes is related to them, so nothing was removed."
    )
    assert sentence in outcome.notes  # which the command prints
    assert sentence in unescape((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert [path.name.split("-")[0] for path in (tmp_path / "out" / "trainings").iterdir()] == ["all"]
    rows = Results(tmp_path / "out" / "run").table()
    assert str(tmp_path) not in "".join(rows["backbone"].unique().to_pylist())
