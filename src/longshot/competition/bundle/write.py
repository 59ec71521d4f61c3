"""Write a competition as a Codabench bundle: pages, data, tasks, the two programs and competition.yaml in one zip."""

from __future__ import annotations

import datetime as dt
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from longshot.competition import sandbox
from longshot.competition.bundle.pages import pages
from longshot.competition.data import CompetitionData, HiddenTask
from longshot.competition.inside.drive import BlindTask
from longshot.competition.settings import Competition, Phase
from longshot.competition.templates import template
from longshot.core.files import atomic
from longshot.core.progress import progress
from longshot.statistics.intervals import t_quantile

PROGRAMS = Path(__file__).parent / "programs"
IMAGE = "pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime"  # has Python, NumPy and torch, and the programs need no more
COMMANDS = {
    "ingestion": "python3 /app/program/ingestion.py /app/input_data /app/output /app/ingested_program",
    "scoring": "python3 /app/program/scoring.py /app/input /app/output",
}


def write_bundle(competition: Competition, out: Path, *, docker_image: str = IMAGE) -> Path:
    """Write a competition as a Codabench bundle (version 2).

    Test labels are in the reference data only, which ingestion never sees.

    Parameters
    ----------
    competition : Competition
        What is written; phases that take no submissions are left out.
    out : Path
        The zip.
    docker_image : str
        Image that runs the programs; it needs Python, NumPy and torch.

    Returns
    -------
    Path
        ``out``.
    """
    data = CompetitionData(competition)
    taking = [phase for phase in competition.phases if phase.submissions]
    runs = [(phase, seed) for phase in taking for seed in phase.seeds]
    with (
        atomic(out) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as bundle,
        progress("bundle", total=len(runs) + 1, unit="tasks") as bar,
    ):
        for kind in COMMANDS:
            bundle.writestr(f"{kind}_program.zip", _program(kind))
        bundle.writestr("logo.png", _logo())
        for name, text in pages(competition, taking).items():
            bundle.writestr(name, text)
        bar.advance(1)
        tasks = []
        for index, (phase, seed) in enumerate(runs):
            name = f"{phase.name}-{seed}"
            inputs, truth = _task_data(data, phase, seed)
            bundle.writestr(f"input-{name}.zip", inputs, zipfile.ZIP_STORED)
            bundle.writestr(f"reference-{name}.zip", truth)
            tasks.append(
                {
                    "index": index,
                    "name": f"{phase.name}, seed {seed}",
                    "description": f"{phase.tasks} tasks of each of {len(phase.test)} datasets",
                    "input_data": f"input-{name}.zip",
                    "reference_data": f"reference-{name}.zip",
                    "ingestion_program": "ingestion_program.zip",
                    "scoring_program": "scoring_program.zip",
                }
            )
            bar.advance(1)
        bundle.writestr("competition.yaml", _yaml(competition, taking, runs, tasks, docker_image))
    return out


def _yaml(
    competition: Competition,
    taking: list[Phase],
    runs: list[tuple[Phase, int]],
    tasks: list[dict[str, Any]],
    docker_image: str,
) -> str:
    phases = []
    for position, phase in enumerate(taking):
        entry: dict[str, Any] = {
            "index": position,
            "name": phase.name,
            "description": f"Phase {phase.name}",
            "start": _moment(phase.start) or _moment(dt.datetime.now(dt.UTC).isoformat()),
            "tasks": [index for index, (owner, _) in enumerate(runs) if owner is phase],
            "max_submissions_per_day": phase.per_day,
            "max_submissions": phase.total,
            "execution_time_limit": round(phase.limits.seconds),
        }
        if phase.end is not None:
            entry["end"] = _moment(phase.end)
        elif position + 1 < len(taking):  # every phase but the last must end
            later = _moment(taking[position + 1].start)
            entry["end"] = later or _moment((dt.datetime.now(dt.UTC) + dt.timedelta(days=60)).isoformat())
        if position:
            entry["auto_migrate_to_this_phase"] = True
        phases.append(entry)
    leagues = _question("league", "select", "League", list(competition.leagues), required=True)
    required = competition.fact_sheet == "required"
    questions = {
        name: _question(name, "text", name, "", required=required) for name in competition.fact_fields
    }
    described = yaml.safe_load(template("bundle.yaml"))
    described |= {
        "title": competition.title[:256],
        "docker_image": docker_image,
        "fact_sheet": {"league": {**leagues, "is_on_leaderboard": True}, **questions},
        "tasks": tasks,
        "phases": phases,
    }
    return yaml.safe_dump(described, sort_keys=False, allow_unicode=True)  # quotes texts that look like dates


def _question(key: str, kind: str, title: str, selection: Any, *, required: bool) -> dict[str, Any]:
    """A field of the fact sheet as a question of the platform."""
    shown = {"title": title, "selection": selection, "is_required": required, "is_on_leaderboard": False}
    return {"key": key, "type": kind, **shown}


def _moment(text: str | None) -> str | None:
    if text is None:
        return None
    return dt.datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M:%S")


def _task_data(data: CompetitionData, phase: Phase, seed: int) -> tuple[bytes, bytes]:
    """The input data (no query labels) and the reference data of one run, each a zip."""
    hidden = data.test_tasks(phase, seed)
    shown = [_plain(task, [field.name for field in fields(BlindTask)]) for task in hidden]
    truth = [_plain(task, ["dataset", "ways", "shots", "query_label"]) for task in hidden]
    files: dict[str, bytes] = {}
    for name, path in data.training_files(phase).items():
        files[f"train/{name}"] = path.read_bytes()
    for name in phase.test:
        files[f"test/{name}.npy"] = _shuffled(data, name, shown)
    files["tasks.json"] = json.dumps({"seed": seed, "tasks": shown}).encode()
    factors = {count: t_quantile(count - 1, 0.95) for count in range(2, len(hidden) + 1)}
    reference = {"tasks": truth, "t95": factors}
    return _zip(files), _zip({"truth.json": json.dumps(reference).encode()})


def _plain(task: HiddenTask, names: list[str]) -> dict[str, Any]:
    """Some fields of a task, as JSON has them."""
    values = {name: getattr(task, name) for name in names}
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()
    }


def _shuffled(data: CompetitionData, name: str, tasks: list[dict[str, Any]]) -> bytes:
    """A test dataset's images in an order of their own: class-major rows would give the labels away.

    The rows of ``tasks`` are renamed to match.
    """
    pixels = data.pixels(name)
    order = np.random.default_rng(int(data.secret(), 16)).permutation(len(pixels))
    renamed = np.empty_like(order)  # row before → row after
    renamed[order] = np.arange(len(order))
    for task in tasks:
        if task["dataset"] == name:
            for key in ("support", "query"):
                task[key] = renamed[task[key]].tolist()
    stream = io.BytesIO()
    np.save(stream, pixels[order])
    return stream.getvalue()


def _program(kind: str) -> bytes:
    files = {
        f"{kind}.py": (PROGRAMS / f"{kind}.py").read_bytes(),
        "metadata.yaml": yaml.safe_dump({"command": COMMANDS[kind]}).encode(),
    }
    for path in sorted(sandbox.PROGRAM.glob("*.py")):
        files[f"inside/{path.name}"] = path.read_bytes()
    if kind == "ingestion":  # submissions may use its networks and methods, as in the sandbox
        for path in sorted(sandbox.PACKAGE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                files[f"longshot/{path.relative_to(sandbox.PACKAGE).as_posix()}"] = path.read_bytes()
    return _zip(files)


def _zip(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _logo() -> bytes:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (256, 256), (32, 58, 92))
    draw = ImageDraw.Draw(image)
    for radius, colour in ((100, (230, 236, 244)), (66, (200, 72, 60)), (30, (230, 236, 244))):
        draw.ellipse((128 - radius, 128 - radius, 128 + radius, 128 + radius), fill=colour)
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()
