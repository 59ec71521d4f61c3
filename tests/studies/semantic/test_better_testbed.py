"""The study better-testbed through the real command: numbers, files, resumption, mistakes."""

from __future__ import annotations

import csv
import html
import json
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from PIL import Image
from scipy import stats

from longshot.evaluation import Results
from longshot.studies import get_study, layered
from longshot.studies.semantic.better_testbed import BetterTestbed
from longshot.studies.semantic.semantic_common import printed_by_method
from longshot.tasks import Testbed


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _values(out: Path, testbed: str, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Coarsity and accuracy of each task, straight from the result rows."""
    table = Results(out / "run").table()
    rows = table.filter(pc.and_(pc.equal(table["testbed_name"], testbed), pc.equal(table["method"], method)))
    rows = rows.sort_by("task")
    return rows["coarsity"].to_numpy(), rows["accuracy"].to_numpy()


@pytest.mark.parametrize("shot", [1, 5])
@pytest.mark.parametrize("method", ["protonet", "nearest-neighbour", "bd-cspn"])
def test_the_table_holds_the_numbers_of_the_results(better: Path, shot: int, method: str) -> None:
    by_part = {
        (r["testbed"].split("-")[0], r["part"]): r
        for r in _csv(better / f"tables/{shot}-shot.csv")
        if r["method"] == method
    }
    assert len(by_part) == 6
    for kind in ("semantic", "uniform"):
        _, accuracy = _values(better, f"{kind}-{shot}-shot", method)
        low, high = stats.t.interval(0.95, len(accuracy) - 1, accuracy.mean(), stats.sem(accuracy))
        row = by_part[kind, "whole"]
        assert [float(row[key]) for key in ("mean", "low", "high")] == pytest.approx(
            [accuracy.mean(), low, high]
        )
    coarsity, accuracy = _values(better, f"semantic-{shot}-shot", method)
    ordered = accuracy[np.argsort(coarsity, kind="stable")]
    for quartile, part in enumerate(np.split(ordered, 4)):
        assert float(by_part["semantic", f"quartile {quartile + 1}"]["mean"]) == pytest.approx(part.mean())


def test_markdown_and_latex_show_the_numbers_of_the_csv(better: Path) -> None:
    row = next(
        r for r in _csv(better / "tables/5-shot.csv") if r["method"] == "protonet" and r["part"] == "whole"
    )
    half = 50 * (float(row["high"]) - float(row["low"]))
    mean = f"{100 * float(row['mean']):.2f}"
    assert f"{mean} ± {half:.2f}" in (better / "tables/5-shot.md").read_text("utf-8")
    latex = (better / "tables/5-shot.tex").read_text("utf-8")
    assert rf"{mean} $\pm$ {half:.2f}" in latex
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 2
    for line in latex.splitlines():  # heads with \multicolumn aside, every row has all eight columns
        if line.endswith(r"\\") and "multicolumn" not in line:
            assert line.count("&") == 7


def test_published_numbers_stand_beside_and_are_marked(better: Path) -> None:
    text = (better / "tables/1-shot.md").read_text("utf-8")
    tim = next(line for line in text.splitlines() if "tim(logits='distance', steps=99)" in line)
    assert "59.19 ± 0.43" in tim
    assert "Published: Bennequin et al., 2022" in text
    assert "not measured here" in text


def test_the_papers_methods_have_their_authors_settings_unless_asked_otherwise() -> None:
    study = get_study("better-testbed")
    calls = layered(study, None, ["methods=[ridge, bd-cspn, tim, pt-map(steps=3)]"]).settings.calls
    assert calls == ["ridge", "bd-cspn", "tim(logits='distance', steps=99)", "pt-map(steps=3)"]
    assert layered(study, None, ["methods=[tim]", "variant=null"]).settings.calls == ["tim"]
    printed = printed_by_method(table=1, part="whole", sampling="semantic")
    assert printed["bd-cspn"] == 0.5999 and "tim" not in printed and "pt-map" not in printed


def test_claims_equal_scipys(better: Path) -> None:
    claims = {(r["claim"], r["number"]): r for r in _csv(better / "tables/claims.csv")}
    coarsity, fine = _values(better, "semantic-5-shot", "protonet")
    _, coarse = _values(better, "uniform-5-shot", "protonet")
    rank = stats.spearmanr(coarsity, fine)[0]
    assert float(claims["correlated", "protonet, 5-shot"]["value"]) == pytest.approx(rank)
    drop = claims["harder", "protonet, 5-shot"]
    bounds = stats.ttest_ind(coarse, fine, equal_var=False).confidence_interval(0.95)
    assert [float(drop[key]) for key in ("low", "high")] == pytest.approx([bounds.low, bounds.high])


def test_testbeds_are_the_samplers_and_shots_share_classes(better: Path) -> None:
    beds = {path.stem: Testbed.load(path) for path in (better / "testbeds").glob("*.parquet")}
    assert set(beds) == {f"{kind}-{shot}-shot" for kind in ("semantic", "uniform") for shot in (1, 5)}
    for kind in ("semantic", "uniform"):
        assert beds[f"{kind}-5-shot"].meta["sampler"]["classes"]["name"] == kind
        one_shot, five_shot = (beds[f"{kind}-{shot}-shot"].table["classes"].to_pylist() for shot in (1, 5))
        assert one_shot == five_shot
    fine, coarse = (
        np.mean(beds[f"{kind}-1-shot"].table["coarsity"].to_numpy()) for kind in ("semantic", "uniform")
    )
    assert fine < coarse


def test_figures_are_pictures(better: Path) -> None:
    names = {path.stem for path in (better / "figures").iterdir()}
    expected = {
        "coarsity",
        "balance",
        *(f"{figure}-{k}-shot" for figure in ("accuracy", "quartiles") for k in (1, 5)),
    }
    assert names == expected
    for name in names:
        with Image.open(better / f"figures/{name}.png") as picture:
            assert min(picture.size) > 300
            assert len(picture.convert("RGB").getcolors(1 << 20)) > 20  # not an empty canvas
        assert "<svg" in (better / f"figures/{name}.svg").read_text("utf-8")


def test_the_page_is_the_study(better: Path) -> None:
    page = (better / "report.html").read_text("utf-8")
    assert len(page.encode()) < 3_000_000
    for claim in BetterTestbed().claims(get_study("better-testbed-small").settings):  # type: ignore[arg-type]
        assert f'id="claim-{claim.id}"' in page
        assert html.escape(claim.sentence, quote=False).replace("'", "&#39;") in page
    for stem in ("1-shot", "5-shot", "testbeds"):
        assert f'id="table-{stem}"' in page
    for text in (
        "What was asked",
        "Published: Bennequin et al., 2022, table 1",
        "testbed.classes",
        "The rule.",
    ):
        assert text in page
    assert page.count("<figure") > 6 and 'href="run.html"' in page
    assert "uniform-5-shot" in (better / "run.html").read_text("utf-8")
    story = json.loads((better / "study.json").read_text("utf-8"))
    assert story["settings"]["tasks"] == 24
    assert story["dataset"]["name"] == "toybox"
    assert "Bennequin" in story["paper"]
    assert story["verdicts"]["coarse"] == "confirmed"
    assert story["title"].endswith(": toybox")


def _again(run_cli, out: Path, *more: str, check: bool = True):
    changes = ("--set", "tasks=24", "--set", "methods=[protonet, nearest-neighbour, bd-cspn]")
    changes = (*changes, "--set", "split=test", *more)
    return run_cli(
        "study", "run", "better-testbed-small", "toybox", *changes, "-o", out, "--json", check=check
    )


@pytest.fixture
def copy(better: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(better, tmp_path / "copy"))


def test_running_again_keeps_everything(run_cli, copy: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in copy.rglob("*") if p.is_file()}
    done = json.loads(_again(run_cli, copy).stdout)
    assert {step["did"] for step in done["steps"]} == {"kept"}
    changed = {p.name for p, time in before.items() if p.stat().st_mtime_ns != time}
    assert changed <= {"study.json", "run.json"}


def test_only_what_is_missing_is_done(run_cli, copy: Path) -> None:
    (copy / "testbeds/uniform-1-shot.parquet").write_bytes(b"PAR1 torn")
    (copy / "figures/balance.svg").unlink()
    part = sorted((copy / "run").glob("part-*.parquet"))[0]
    rows = part.read_bytes()
    part.unlink()
    did = {step["step"]: step["did"] for step in json.loads(_again(run_cli, copy).stdout)["steps"]}
    assert did["testbed semantic-1-shot"] == did["tables"] == did["report"] == "kept"
    assert did["figures"] == did["testbed uniform-1-shot"] == "written"
    assert (copy / "figures/balance.svg").is_file()
    assert part.read_bytes() == rows


def test_a_damaged_record_of_the_run_is_one_sentence(run_cli, copy: Path) -> None:
    record = copy / "run/run.json"
    record.write_bytes(record.read_bytes()[:500])
    done = _again(run_cli, copy, check=False)
    assert done.returncode == 2
    assert f"error: {record} is damaged: it is not JSON" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_another_method_extends_the_run(run_cli, copy: Path) -> None:
    parts = {p: p.stat().st_mtime_ns for p in (copy / "run").glob("part-*.parquet")}
    _again(run_cli, copy, "--set", "methods=[protonet, simpleshot]")
    assert all(p.stat().st_mtime_ns == time for p, time in parts.items())
    methods = {r["method"] for r in _csv(copy / "tables/1-shot.csv")}
    assert methods == {"protonet", "simpleshot"}


def test_other_settings_in_the_same_folder_are_refused(run_cli, copy: Path) -> None:
    done = _again(run_cli, copy, "--set", "alpha=1", check=False)
    assert done.returncode == 2
    assert "holds a study with alpha = 0.383, now it is 1.0, after 5 finished parts" in done.stderr


def test_a_dataset_without_taxonomy_is_refused(run_cli, photos: Path, tmp_path: Path) -> None:
    flat = photos / "round"
    done = run_cli("study", "run", "better-testbed-small", flat, "-o", tmp_path / "out", check=False)
    assert done.returncode == 2
    assert "has no taxonomy" in done.stderr
    assert "many-way" in done.stderr
    assert not (tmp_path / "out").exists()


def test_too_many_tasks_name_the_studys_setting(run_cli, photos: Path, tmp_path: Path) -> None:
    changes = ("--set", "split=null", "--set", "tasks=500", "--set", "methods=protonet")
    done = run_cli(
        "study", "run", "better-testbed-small", photos, *changes, "-o", tmp_path / "out", check=False
    )
    assert done.returncode == 2
    assert "--set tasks=" in done.stderr
    assert "--tasks" not in done.stderr


def test_a_foreign_folder_is_refused(run_cli, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    done = run_cli("study", "run", "better-testbed-small", "toybox", "-o", tmp_path, check=False)
    assert done.returncode == 2
    assert "such as 'letter.txt', and no study.json" in done.stderr


def test_a_dry_run_estimates_and_writes_nothing(run_cli, tmp_path: Path) -> None:
    changes = ("--set", "tasks=24", "--set", "methods=protonet", "--dry-run")
    out = tmp_path / "out"
    estimate = json.loads(
        run_cli("study", "run", "better-testbed-small", "toybox", *changes, "-o", out, "--json").stdout
    )
    assert len([step for step in estimate["steps"] if step["step"] == "evaluate"]) == 4
    assert (
        "nothing was written"
        in run_cli("study", "run", "better-testbed-small", "toybox", *changes, "-o", out).stdout
    )
    assert not out.exists()
