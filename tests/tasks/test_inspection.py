"""``inspect`` from Python, and how a testbed shows itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import longshot
from longshot import UserError
from longshot.tasks import FixedShape, Testbed, inspect, named_only, sample


@pytest.fixture
def dataset(make_dataset):
    return make_dataset({"a/x": 20, "a/y": 20, "b/z": 20})


@pytest.fixture
def bed(dataset) -> Testbed:
    return sample(dataset, tasks=7, shape=FixedShape(2, 3, 4))


def test_facts_are_plain_values(bed: Testbed) -> None:
    facts = inspect(bed).facts
    assert facts["tasks"] == 7 and facts["classes"] == 3
    assert facts["way"] == {"min": 2, "mean": 2.0, "max": 2}
    assert facts["shot"] == {"min": 3, "mean": 3.0, "max": 3}
    assert facts["query_per_task"] == {"min": 8, "mean": 8.0, "max": 8}
    assert facts["histograms"]["ways per task"] == {"2": 7}
    assert "verified" not in facts


def test_the_text_is_what_the_command_prints(bed: Testbed) -> None:
    lines = str(inspect(bed)).splitlines()
    assert lines[0] == f"{bed.content_hash[:12]}: 7 tasks, content hash {bed.content_hash}"
    assert lines[1].startswith("dataset small: 7 tasks, fingerprint ")
    assert any(line.startswith("3 classes, ") for line in lines)


def test_a_testbed_that_fits_is_verified(bed: Testbed, dataset) -> None:
    inspection = inspect(bed, verify=True, datasets={"small": dataset})
    assert inspection.findings == () and inspection.facts["verified"] is True
    inspection.check()


def test_a_testbed_that_does_not_fit_says_what_differs(bed: Testbed, make_dataset) -> None:
    other = make_dataset({"a/x": 20, "a/y": 20, "b/other": 20})
    by_names = bed.changed(bed.table, content={"small": named_only(bed.content["small"].images)})
    inspection = inspect(by_names, verify=True, datasets={"small": other})
    assert inspection.findings is not None and len(inspection.findings) > 1
    assert any(finding.startswith("small: 1 classes of ") for finding in inspection.findings)
    with pytest.raises(UserError, match="does not fit its dataset: small: the fingerprint is"):
        inspection.check()


def test_pictures_need_a_page(bed: Testbed) -> None:
    with pytest.raises(UserError, match=r"^pictures=3 goes with html only; say which page to write\.$"):
        longshot.inspect(bed, pictures=3)


def test_the_page_is_written(bed: Testbed, tmp_path: Path) -> None:
    longshot.inspect(bed, html=tmp_path / "bed.html", pictures=0)
    assert bed.content_hash[:12] in (tmp_path / "bed.html").read_text(encoding="utf-8")


def test_the_page_is_not_the_testbed(bed: Testbed, tmp_path: Path) -> None:
    path = tmp_path / "bed.html"
    bed.save(tmp_path / "bed.parquet")
    (tmp_path / "bed.parquet").rename(path)
    with pytest.raises(UserError, match="is the testbed itself; give the page another name"):
        longshot.inspect(path, html=path, force=True)


def test_a_testbed_shows_itself_in_four_lines_and_as_a_table(bed: Testbed, tmp_path: Path) -> None:
    code = bed.content_hash[:12]
    identity = f"content ({len(bed.keys('small'))} images)"
    shown = f"Testbed {code} (not on disk): 7 tasks\n  2-way, 3-shot\n  of small\n  identity: {identity}"
    assert repr(bed) == shown
    bed.save(tmp_path / "easy.parquet")
    table = Testbed.load(tmp_path / "easy.parquet")._repr_html_()
    cells = {"testbed": "easy", "tasks": "7", "ways": "2", "shots": "3", "datasets": "small"}
    cells |= {"identity": identity, "hash": code}
    assert (
        table
        == "<table>" + "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in cells.items()) + "</table>"
    )
