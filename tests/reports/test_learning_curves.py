"""Learning curves from the folders of trainings: what is read, drawn, refused."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as Xml
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.reports import read_runs, read_trainings, render_report
from longshot.reports.learning_curves import POINTS, curve_plots, write_curves

from .conftest import MakeRun
from .runs import write_history

Run = Callable[..., "CompletedProcess[str]"]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in Xml.fromstring(svg).iter() if element.tag.endswith("text")]


def test_the_history_is_read(tmp_path: Path) -> None:
    (history,) = read_trainings([write_history(tmp_path / "net")])
    assert history.name == "net" and history.seconds == 60 and len(history.step) == len(history.loss) == 40
    assert history.validated.tolist() == [10, 20, 30, 40]
    assert history.best_at() == pytest.approx((20, 0.8, 0.02))


def test_the_first_of_equal_validations_was_kept(tmp_path: Path) -> None:
    (history,) = read_trainings(
        [write_history(tmp_path / "net", validation_accuracy=0.7, validation_interval=None)]
    )
    best = history.best_at()
    assert best is not None and best[:2] == (1, 0.7) and math.isnan(best[2])


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    folders = [write_history(tmp_path / parent / "net") for parent in "ab"]
    assert [history.name for history in read_trainings(folders)] == ["net", "net (2)"]


def test_without_validation_there_is_the_loss_alone(tmp_path: Path) -> None:
    trainings = read_trainings([write_history(tmp_path / "net", every=0)])
    assert [title for title, _ in curve_plots(trainings)] == ["Training loss"] and trainings[
        0
    ].best_at() is None


def test_plots_are_themed_and_say_what_they_show(tmp_path: Path) -> None:
    panels = dict(
        curve_plots(read_trainings([write_history(tmp_path / "a$b$"), write_history(tmp_path / "c")]))
    )
    assert list(panels) == ["Training loss", "Validation accuracy"]
    for title, svg in panels.items():
        assert Xml.fromstring(svg).attrib["aria-label"] == f"{title} against step: a$b$, c"
        assert not re.search(r"#[0-9a-f]{6}\b", svg) and "var(--s2)" in svg
        assert "step" in texts(svg)


def test_a_loss_that_is_no_number_leaves_a_gap(tmp_path: Path) -> None:
    folder = write_history(tmp_path / "net")
    lines = (folder / "history.jsonl").read_text().splitlines()
    lines[3] = re.sub(r'"loss": [\d.]+', '"loss": NaN', lines[3])
    lines[4] = re.sub(r'"loss": [\d.]+', '"loss": null', lines[4])
    (folder / "history.jsonl").write_text("\n".join(lines))
    (history,) = read_trainings([folder])
    assert np.flatnonzero(np.isnan(history.loss)).tolist() == [3, 4]
    assert len(curve_plots([history])) == 2


def test_long_histories_are_averaged(tmp_path: Path) -> None:
    svg = curve_plots(read_trainings([write_history(tmp_path / "net", records=5000, every=1000)]))[0][1]
    longest = max(path.count("L") for path in re.findall(r' d="([^"]+)"', svg))
    assert POINTS / 2 < longest < POINTS


@pytest.mark.parametrize("name", ["curves.png", "curves.svg", "curves.pdf"])
def test_a_picture_is_written(tmp_path: Path, name: str) -> None:
    folders: Sequence[Path] = [write_history(tmp_path / "one"), write_history(tmp_path / "_two")]
    path = write_curves(folders, tmp_path / name)
    start = path.read_bytes()[:8]
    assert start.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[name[-3:]])
    if name.endswith("png"):
        with Image.open(path) as picture:
            assert len(picture.convert("RGB").getcolors(1 << 20) or []) > 50  # not an empty canvas
            assert picture.width > 2 * picture.height
    if name.endswith("svg"):
        assert {"one", "_two", "step", "training loss", "validation accuracy (%)"} <= set(
            texts(path.read_text())
        )


def test_equal_histories_give_equal_pictures(tmp_path: Path) -> None:
    folder = write_history(tmp_path / "one")
    first, second = (write_curves([folder], tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert first == second


def test_what_is_no_training_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not the folder of a training: it has no history\.jsonl"):
        read_trainings([tmp_path])
    (tmp_path / "history.jsonl").write_text("")
    with pytest.raises(UserError, match="holds 0 records"):
        read_trainings([tmp_path])
    folder = write_history(tmp_path / "net")
    with (folder / "history.jsonl").open("a") as file:
        file.write('{"step": 41, "sec')
    with pytest.raises(UserError, match=r"Line 41 of .* is no record of a training"):
        read_trainings([folder])
    with pytest.raises(UserError, match=r"a picture is written as \.png or \.svg or \.pdf"):
        write_curves([folder], tmp_path / "curves.gif")


def test_the_page_shows_curves_and_a_table(make_run: MakeRun, tmp_path: Path) -> None:
    folders = [write_history(tmp_path / f"net{i}") for i in range(9)]
    text = render_report(read_runs(make_run()), training=folders)
    section = text[text.index('<section id="training">') :]
    section = section[: section.index("</section>")]
    assert section.count('class="plot"') == 2 and "(1 series left out: the plot holds 8)" in section
    assert section.count("<tr>") == 1 + 9 and '80.0</span><span class="half"> ± 2.0</span>' in section


def test_the_command_takes_several_folders(run_cli: Run, make_run: MakeRun, tmp_path: Path) -> None:
    run, first, second = make_run(), write_history(tmp_path / "one"), write_history(tmp_path / "two")
    run_cli(
        "report", run, "--pictures", "0", "--training", first, "--training", second, "-o", tmp_path / "r.html"
    )
    assert "Learning curves" in (tmp_path / "r.html").read_text("utf-8")
    done = run_cli("report", run, "--training", first, "--format", "md", check=False)
    assert done.returncode == 2 and "Learning curves stand on the page" in done.stderr
