"""What every command does to the file that it is to write: one rule, by the real commands."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from subprocess import CompletedProcess

import click
import numpy as np
import pytest

import longshot
from longshot.base import PlaceType, UserError, write_text
from longshot.cli.main import every_command
from longshot.evaluation import write_predictions
from wings import wing_cases

Run = Callable[..., "CompletedProcess[str]"]
NOTES = "These are my notes, and there is no copy of them.\n"

# (command, the option that names its output) → names that it may write; {} stands for the files that ``world`` holds.
# The ``cases`` of the wings add to these tables.
FILES: dict[tuple[str, str], tuple[str, ...]] = {
    ("sample", "out"): ("new.parquet",),
    ("split", "out"): ("new.json",),
    ("report", "out"): ("new.html", "new.md", "new.csv", "new.tex", "new.json", "new.txt"),
    ("inspect", "html"): ("new.html",),
    ("score", "out"): ("new.csv", "new.parquet"),
    ("embed", "out"): ("new.npy",),
    ("datasets overlap", "out"): ("new.parquet", "new.json"),
    ("datasets overlap", "page"): ("new.html",),
    ("datasets without", "out"): ("new.view.json",),
    ("datasets suspects", "out"): ("new.csv",),
    ("datasets suspects", "view"): ("new.view.json",),
    ("taxonomy distances", "out"): ("new.csv",),
    ("taxonomy wordnet", "out"): ("new.csv",),
    ("taxonomy make", "out"): ("new.csv",),
    ("taxonomy show", "picture"): ("new.png", "new.svg", "new.pdf"),
    ("splits plot", "out"): ("new.png",),
    ("doctor", "report"): ("new.json",),  # a report: tests/api/test_selftest.py
}
# command that writes a folder → its arguments; None: its own tests try it
FOLDERS: dict[str, str | None] = {
    "evaluate": "{bed} --backbone pixels --method protonet",
    "train": "protonet {few} --steps 1",
    "tune": "protonet {few} --search way=choose(2,3) --trials 1",
    "demo": "",
}
# what reads its options, extends a file that it has read before, or needs two runs that differ
ELSEWHERE = {("compare", "markdown"), ("compare", "junit")}
ARGUMENTS = {
    "sample": "{photos} --tasks 4 --way 3 --shot 1 --query 2",
    "split": "{photos} --random",
    "report": "{run} --pictures 0",
    "inspect": "{bed} --pictures 0",
    "score": "{predictions} {bed}",
    "embed": "{photos} --backbone pixels",
    "datasets overlap": "{few} {few} --pictures 1",
    "datasets without": "{few} {overlap}",
    "datasets suspects": "{few} --backbone pixels --equal-files",
    "taxonomy distances": "{edges}",
    "taxonomy wordnet": "--classes {ids} --file {nouns}",
    "taxonomy make": "{few} --backbone pixels --least 2",
    "taxonomy show": "{edges}",
    "splits plot": "random --dataset {photos} --backbone pixels",
    "doctor": "--selftest",
}
ENDINGS = [  # of another format
    ("report", "out", "x.pdf", ".html or .htm or .md or .csv or .tex or .json or .txt"),
    ("sample", "out", "x.csv", ".parquet"),
    ("split", "out", "x.yaml", ".json"),
    ("score", "out", "x.json", ".parquet or .csv"),
    ("inspect", "html", "x.pdf", ".html or .htm"),
    ("taxonomy show", "picture", "x.jpg", ".png or .svg or .pdf"),
    ("embed", "out", "x.npz", ".npy"),
]
for table, kind in ((FILES, "OUTPUT_FILES"), (ARGUMENTS, "OUTPUT_ARGUMENTS"), (FOLDERS, "OUTPUT_FOLDERS")):
    for cases in wing_cases(kind):
        table.update(cases)
ENDINGS.extend(chain(*wing_cases("OUTPUT_ENDINGS")))
ELSEWHERE.update(*wing_cases("OUTPUTS_ELSEWHERE"))

CASES = [(words, option, name) for (words, option), names in FILES.items() for name in names]
MADE = [
    case
    for case in CASES
    if "{missing}" not in ARGUMENTS[case[0]]
    and case[0] != "doctor"
    and case[:2] != ("datasets overlap", "page")
]
TEXTS = (".html", ".md", ".csv", ".tex", ".json", ".svg")

_NOUNS = """\
00000001 03 n 01 entity 0 002 ~ 02084071 n 0000 ~ 00000003 n 0000 | all there is
02084071 05 n 02 dog 0 domestic_dog 0 001 @ 00000001 n 0000 | barks
00000003 05 n 01 fish 0 001 @ 00000001 n 0000 | swims
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Iterator[dict[str, Path]]:
    """Inputs for every command; nobody changes them."""
    folder = tmp_path_factory.mktemp("world")
    made = {name: folder / name for name in ("missing", "run", "few")}
    made["photos"] = photos
    for number in range(3):
        (made["few"] / f"class{number}").mkdir(parents=True)
        for image in sorted(photos.rglob("*.jpg"))[20 * number : 20 * number + 6]:
            (made["few"] / f"class{number}" / image.name).write_bytes(image.read_bytes())
    made |= {
        name: folder / file
        for name, file in {
            "bed": "bed.parquet",
            "predictions": "predictions.parquet",
            "overlap": "overlap.json",
            "edges": "edges.csv",
            "ids": "ids.txt",
            "light": "light.csv",
            "nouns": "data.noun",
        }.items()
    }
    bed = longshot.sample(photos, tasks=4, way=3, shot=1, query=2, out=made["bed"])
    longshot.evaluate([made["bed"]], backbones=["pixels"], methods=["protonet"], out=made["run"])
    write_predictions(made["predictions"], bed, [np.zeros(6, int)] * 4)
    longshot.find_overlap(made["few"], made["few"], out=made["overlap"])
    images = sorted(photos.rglob("*.jpg"))
    lights = [f"{image.relative_to(photos)},{number % 7}" for number, image in enumerate(images)]
    made["light"].write_text("\n".join(["path,light", *lights]))
    made["edges"].write_text("parent,child\nanimal,bird\nanimal,fish\nbird,wren\nbird,crow\n")
    made["ids"].write_text("n02084071\nn00000003\n")
    made["nouns"].write_text(_NOUNS)
    yield made


def call(words: str, option: str, world: dict[str, Path], out: Path | str) -> list[str | Path]:
    """The command line that writes ``out``."""
    arguments = [part.format(**world) for part in ARGUMENTS[words].split()]
    (flags,) = (param.opts for param in dict(every_command())[words].params if param.name == option)
    return [*words.split(), *arguments, "-o" if "-o" in flags else flags[0], out]


def refused(done: CompletedProcess[str], *phrases: str) -> None:
    """One sentence on stderr, exit code 2, no traceback."""
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.strip().splitlines() if not line.startswith("note:")]
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    for phrase in phrases:
        assert phrase in lines[0]


def test_every_output_is_known_here() -> None:
    """A new command with an output comes into the tables above, and files have a --force."""
    outputs = set()
    for words, command in every_command():
        options = {str(param.name): param for param in command.params if isinstance(param, click.Option)}
        for name in (
            "out",
            "html",
            "page",
            "view",
            "picture",
            "report",
            "leaderboard",
            "markdown",
            "junit",
            "onnx",
        ):
            if name in options and isinstance(options[name].type, PlaceType):
                outputs.add((words, name))
                assert (words, name) not in FILES or "force" in options, words
    assert outputs == {*FILES, *ELSEWHERE, *((words, "out") for words in FOLDERS)}


@pytest.mark.parametrize(("words", "option", "name"), CASES)
def test_a_file_of_others_is_refused_before_any_work(
    run_cli: Run, world: dict[str, Path], tmp_path: Path, words: str, option: str, name: str
) -> None:
    """The inputs are not there, and the sentence is about the output: nothing was opened before."""
    path = tmp_path / name
    path.write_text(NOTES)
    write_text(path, "a page")  # as every command wrote before
    assert path.read_text() != NOTES
    path.write_text(NOTES)
    nowhere = dict.fromkeys(world, world["missing"])
    if words in ("taxonomy show", "split"):
        nowhere = world
    refused(
        run_cli(*call(words, option, nowhere, path), check=False),
        f"{path} is there already, and it is no ",
        "--force",
    )
    assert path.read_text() == NOTES


@pytest.mark.parametrize(("words", "option", "name"), MADE)
def test_what_longshot_wrote_is_replaced_and_anything_with_force(
    run_cli: Run, world: dict[str, Path], tmp_path: Path, words: str, option: str, name: str
) -> None:
    path = tmp_path / name
    path.write_text(NOTES)
    run_cli(*call(words, option, world, path), "--force")
    written = path.read_bytes()
    assert written != NOTES.encode()
    path.rename(tmp_path / "target")
    if words == "embed":  # the sidecar tells whose array it is
        (tmp_path / "target").rename(path)
    else:
        path.symlink_to("target")
    # An edge list or a matrix of a taxonomy may be a person's own: --force, always.
    by_hand = ("--force",) if words in ("taxonomy wordnet", "taxonomy distances", "taxonomy make") else ()
    run_cli(*call(words, option, world, path), *by_hand)
    assert path.read_bytes()[:8] == written[:8]
    assert path.is_symlink() is (words != "embed")


@pytest.mark.parametrize(
    ("words", "option", "name"), [case for case in MADE if case[2].endswith(TEXTS) and case[0] != "report"]
)
def test_a_dash_is_the_screen(
    run_cli: Run, world: dict[str, Path], tmp_path: Path, words: str, option: str, name: str
) -> None:
    done = run_cli(*call(words, option, world, "-"), cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    starts = {".html": "<!doctype html>", ".json": "{", ".svg": "<?xml"}
    assert done.stdout.startswith(starts.get(Path(name).suffix, ""))
    assert "\n" in done.stdout and not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [words for words, arguments in FOLDERS.items() if arguments is not None])
def test_a_folder_of_others_is_refused_and_a_dash_is_none(
    run_cli: Run, world: dict[str, Path], tmp_path: Path, words: str
) -> None:
    parts = [*words.split(), *(part.format(**world) for part in str(FOLDERS[words]).split())]
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").write_text("a photo")
    refused(
        run_cli(*parts, "-o", "photos", cwd=tmp_path, check=False),
        "photos holds 1 ",
        "file, such as 'holiday.jpg'",
    )
    refused(run_cli(*parts, "-o", "-", cwd=tmp_path, check=False), "'-' is the screen, but a ")
    assert [path.name for path in tmp_path.rglob("*")] == ["photos", "holiday.jpg"]


@pytest.mark.parametrize(
    ("words", "option", "name", "endings"),
    ENDINGS,
)
def test_an_ending_of_another_format(
    run_cli: Run, world: dict[str, Path], tmp_path: Path, words: str, option: str, name: str, endings: str
) -> None:
    done = run_cli(*call(words, option, world, tmp_path / name), check=False)
    refused(done, f"{name}' ends in {Path(name).suffix}, but a ", f"is written as {endings};")
    assert not list(tmp_path.iterdir())


def test_another_testbed_is_refused_before_it_is_drawn(
    run_cli: Run, world: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "easy.parquet"
    draw = call("sample", "out", world, path)
    run_cli(*draw)
    before = path.read_bytes()
    for change, difference in {
        "--tasks 5": "tasks differ",
        "--seed 1": "seed differs",
        "--way 2": "shape differs",
        "--classes siblings --level 1": "classes differ",
        "--instances difficult --judge pixels": "instances differ",
    }.items():
        refused(run_cli(*draw, *change.split(), check=False), f"holds another testbed, whose {difference}")
        assert path.read_bytes() == before
    run_cli(*draw)  # the same again is no loss
    assert path.read_bytes() == before
    run_cli(*draw, "--seed", "1", "--force")
    assert path.read_bytes() != before


def test_a_testbed_with_other_content_is_not_replaced_by_save(world: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "easy.parquet"
    longshot.sample(world["photos"], tasks=4, way=2, shot=1, query=2, out=path)
    other = longshot.sample(world["photos"], tasks=4, way=2, shot=1, query=2, seed=1)
    with pytest.raises(UserError, match="holds another testbed, whose content hash differs"):
        other.save(path)
    other.save(path, force=True)
    assert longshot.Testbed.load(path).content_hash == other.content_hash


def test_a_testbed_goes_into_a_pipe(run_cli: Run, world: dict[str, Path], tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    run_cli(*call("sample", "out", world, pipe))
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    run_cli(*call("sample", "out", world, tmp_path / "easy.parquet"))
    assert received == [(tmp_path / "easy.parquet").read_bytes()]


def test_a_sidecar_of_others_is_not_lost_to_features(
    run_cli: Run, world: dict[str, Path], tmp_path: Path
) -> None:
    """FILE.npy is new, but FILE.json is not."""
    (tmp_path / "new.json").write_text(NOTES)
    refused(
        run_cli(*call("embed", "out", world, tmp_path / "new.npy"), check=False), "new.json is there already"
    )
    assert (tmp_path / "new.json").read_text() == NOTES


def test_python_prints_a_report(
    world: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert longshot.report(world["run"], "-", format="md") == "-"
    assert capsys.readouterr().out.startswith("| Method | Backbone |") and not list(tmp_path.iterdir())


def test_two_outputs_do_not_share_the_screen(run_cli: Run, world: dict[str, Path]) -> None:
    done = run_cli(*call("datasets suspects", "out", world, "-"), "--view", "-", check=False)
    refused(done, "-o and --view cannot both go to the screen")
