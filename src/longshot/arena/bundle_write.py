"""Write a competition as a Codabench bundle: pages, data, tasks, the two programs and competition.yaml in one zip.

Every dataset is in it once, without loss, in an order that says nothing, under a key of its own.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import threading
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from PIL import Image

from longshot.arena import sandbox
from longshot.arena.bundle_check import allowed_in_all, bundle_settings
from longshot.arena.bundle_programs import sealed_pictures
from longshot.arena.competition_data import CompetitionData, HiddenTask
from longshot.arena.domains import domain_sentence
from longshot.arena.settings import META, PER_SUBMISSION, RUN, Competition, Phase, template
from longshot.base import Ints, OutputKind, UserError, delivered, nearest_name, progress
from longshot.statistics import t_quantile

QUEUE_SECONDS = 600  # the public queue ends what takes longer


def bundle_pages(competition: Competition, taking: Sequence[Phase], stored: int, runs: int) -> dict[str, str]:
    """Map file name → text; ``taking`` are the phases with submissions, ``stored`` the bytes of the input data."""
    phases = "".join(
        template("phase.md").format(
            name=phase.name,
            tasks=phase.tasks,
            datasets=len(phase.test),
            minutes=phase.limits.seconds / 60,
            allowed=_allowed(phase.per_day, allowed_in_all(competition, phase)),
            seeds=_seeds(len(phase.seeds)),
            domains=f" {domain_sentence(competition, phase)}".rstrip(),
        )
        for phase in taking
    )
    slow = ", ".join(phase.name for phase in taking if phase.limits.seconds > QUEUE_SECONDS)
    warning = template("slow.md").format(limit=QUEUE_SECONDS, names=slow) if slow else ""
    overview = template("overview.md").format(title=competition.title, shape=competition.shape, phases=phases)
    alone = competition.leagues == (META,)
    readme = template("README.md").format(
        megabytes=stored / 1e6,
        runs=runs,
        total=stored * runs / 1e6,
        leagues=template("one_league.md" if alone else "leagues.md"),
        logs=_logs(taking),
        packages=_packages(competition),
    )
    unchanged = {name: template(name) for name in ("evaluation.md", "submission.md", "terms.md")}
    return {"overview.md": overview, **unchanged, "README.md": readme + warning}


def _logs(taking: Sequence[Phase]) -> str:
    """Say what comes out of runs, phase by phase."""
    open_phases = [phase.name for phase in taking if phase.logs == "printed"]
    text = (
        "What it prints is dropped, and of a failure the log has the stage, the kind of Python's exception and a line "
        "of the archive."
    )
    if open_phases:
        text += (
            f" In {', '.join(open_phases)} ('logs: printed') the log has its words too, each line marked and cut at a "
            f"length."
        )
    return text


def _packages(competition: Competition) -> str:
    """Say which packages the competition promises submissions beyond what its programs need."""
    if not competition.requirements:
        return ""
    path = competition.folder / competition.requirements
    lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else []
    names = ", ".join(line.partition("#")[0].strip() for line in lines if line.partition("#")[0].strip())
    return (
        f" This competition also promises submissions these packages, so the image must have them: {names}."
    )


def _allowed(per_day: int, total: int) -> str:
    """Say in words how many submissions a team has."""
    if total == 1:
        return "1 submission"
    limits = [f"{per_day} a day"] if per_day else []
    limits += [f"{total} in all"] if total else []
    return f"submissions: {', '.join(limits)}" if limits else "any number of submissions"


def _seeds(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs, of which the worst counts"


class SealedImages:
    """The sealed file of one dataset: ``content``, its ``key``, and ``place``: row in the dataset → row in the file."""

    def __init__(self, data: CompetitionData, name: str, rows: Ints, file: str) -> None:
        self.file, self.key = file, secrets.token_bytes(32)
        order = np.random.default_rng(secrets.randbits(128)).permutation(rows)
        self.place = np.full(len(data.dataset(name)), -1)
        self.place[order] = np.arange(len(order))
        self.content = sealed_pictures.seal(sealed_pictures.pack(_encoded(data, name, order)), self.key)

    def task(self, task: HiddenTask) -> dict[str, Any]:
        """Return a task as ingestion needs it: without the labels of its queries."""
        facts = {name: getattr(task, name) for name in ("dataset", "ways", "shots", "seed")}
        labels = {"support_label": task.support_label.tolist()}
        return {
            **facts,
            **labels,
            "support": self.place[task.support].tolist(),
            "query": self.place[task.query].tolist(),
        }

    @property
    def entry(self) -> dict[str, str]:
        """Return file and key, for the program of a run that needs the images."""
        return {"file": self.file, "key": self.key.hex()}


def seal_images(
    data: CompetitionData, train: Sequence[str], tasks: Sequence[HiddenTask]
) -> dict[str, SealedImages]:
    """Map dataset → its sealed images: all of a training dataset, else those of ``tasks``."""
    used = {name: np.arange(len(data.dataset(name))) for name in train}
    for name in dict.fromkeys(task.dataset for task in tasks):
        parts = [part for task in tasks if task.dataset == name for part in (task.support, task.query)]
        used.setdefault(name, np.unique(np.concatenate(parts)))
    with progress("images", total=len(used), unit="datasets") as bar:
        sealed = {}
        for number, (name, rows) in enumerate(used.items()):
            sealed[name] = SealedImages(data, name, rows, f"images/{number}.bin")
            bar.advance(1)
    return sealed


def _encoded(data: CompetitionData, name: str, rows: Ints) -> list[bytes]:
    """Encode images as lossless WebP: as they came where that is smaller than the competition's size, else at it."""
    dataset, size = data.dataset(name), data.competition.image_size
    making = threading.Lock()
    resized: list[NDArray[np.uint8]] = []

    def encode(row: int) -> bytes:
        image = dataset.image(row).convert("RGB")
        if image.width * image.height > size * size:
            with making:  # once, by the first that needs it
                resized[:] = resized or [data.pixels(name)]
            image = Image.fromarray(resized[0][row])
        stream = io.BytesIO()
        image.save(stream, "WEBP", lossless=True, method=0, quality=0)
        return stream.getvalue()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(encode, rows.tolist()))


PROGRAMS = Path(__file__).parent / "bundle_programs"
# name of a program's file here → in the bundle, where they import each other by it
PACKED_AS = {"bundle_scoring": "scoring", "bundle_spawn": "spawn", "sealed_pictures": "pictures"}
IMAGE = "pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime"  # has all that the programs need
COMMANDS = {
    "ingestion": "python3 /app/program/ingestion.py /app/input_data /app/output /app/ingested_program wipe",
    "scoring": "python3 /app/program/scoring.py /app/input /app/output",
}


def _is_bundle(path: Path) -> bool:
    """Tell by the names inside whether ``write_bundle`` wrote a file."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return names[0] == "competition.yaml" and {"ingestion", "reference"} <= {
        name.split("-")[0] for name in names
    }


KIND = OutputKind("bundle", {".zip": _is_bundle})


def write_bundle(
    competition: Competition, out: Path, *, docker_image: str = IMAGE, league: str | None = None
) -> Path:
    """Write a competition as a Codabench bundle (version 2).

    Test labels are in the reference data only, which ingestion never sees. The images are written once, as the input
    data of every task, each dataset sealed under a key of its own; keys, tasks and support labels of a run are in its
    ingestion program, which hands them to a submission one task at a time. It signs the answers, and scoring accepts no
    others.

    Parameters
    ----------
    competition : Competition
        What is written; phases that take no submissions are left out.
    out : Path
        The zip.
    docker_image : str
        Image that runs the programs; it needs Python, NumPy, torch and Pillow.
    league : str, optional
        Write the competition of this league alone. The platform does not tell programs which league a team chose, so
        only in a bundle of the meta-learning league alone do the programs keep to its rule.

    Returns
    -------
    Path
        ``out``.
    """
    competition = _of_league(competition, league)
    data = CompetitionData(competition)
    taking = [phase for phase in competition.phases if phase.submissions]
    if not taking:
        raise UserError("No phase of the competition takes submissions", "set 'submissions: true' for one")
    if competition.draws == PER_SUBMISSION:
        raise UserError(
            "A bundle holds its tasks, so that they cannot be drawn anew for every submission",
            "set 'draws: fixed'",
        )
    if competition.isolation == RUN:
        raise UserError(
            "A bundle's programs answer every task in a process of its own, but the competition has 'isolation: run'",
            "set 'isolation: task'",
        )
    runs = [(phase, seed) for phase in taking for seed in phase.seeds]
    tasks = [
        {
            "index": index,
            "name": f"{phase.name}, seed {seed}",
            "description": f"{phase.tasks} tasks of each of {len(phase.test)} datasets",
            "input_data": "input_data.zip",
            "reference_data": f"reference-{phase.name}-{seed}.zip",
            "ingestion_program": f"ingestion-{phase.name}-{seed}.zip",
            "scoring_program": "scoring_program.zip",
        }
        for index, (phase, seed) in enumerate(runs)
    ]
    used = [[index for index, (owner, _) in enumerate(runs) if owner is phase] for phase in taking]
    # before the work: dates may not fit
    described = bundle_settings(competition, taking, tasks, used, docker_image)
    hidden = [data.test_tasks(phase, seed) for phase, seed in runs]
    train = list(dict.fromkeys(name for phase in taking for name in phase.train))
    images = seal_images(data, train, [task for run_tasks in hidden for task in run_tasks])
    with delivered(out) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("competition.yaml", described)
        bundle.writestr("logo.png", _logo())
        inputs = _zip({sealed.file: sealed.content for sealed in images.values()}, zipfile.ZIP_STORED)
        bundle.writestr("input_data.zip", inputs, zipfile.ZIP_STORED)
        bundle.writestr("scoring_program.zip", _zip(_scoring()))
        shared = _ingestion()
        for (phase, seed), entry, tasks_of_run in zip(runs, tasks, hidden, strict=True):
            # It signs the answers: in the programs of this run and nowhere else.
            key = {"key": secrets.token_hex(32)}
            run = {**_run(data, phase, seed, tasks_of_run, images), **key}
            program = {**shared, "run.json": json.dumps(run).encode()}
            bundle.writestr(str(entry["ingestion_program"]), _zip(program), zipfile.ZIP_STORED)
            truth = {"truth.json": json.dumps({**_truth(tasks_of_run), **key}).encode()}
            bundle.writestr(str(entry["reference_data"]), _zip(truth), zipfile.ZIP_STORED)
        stored = len(inputs)
        for name, text in bundle_pages(competition, taking, stored, len(runs)).items():
            bundle.writestr(name, text)
    return out


def _of_league(competition: Competition, league: str | None) -> Competition:
    """Return the competition of one league alone; as it is where none is named."""
    if league is None:
        return competition
    if league not in competition.leagues:
        raise UserError(
            f"The competition has no league '{league}'; {nearest_name(league, competition.leagues, 'it has')}"
        )
    title = f"{competition.title}: {league}"
    return competition.model_copy(update={"leagues": (league,), "title": title})


def _run(
    data: CompetitionData,
    phase: Phase,
    seed: int,
    tasks: Sequence[HiddenTask],
    images: Mapping[str, SealedImages],
) -> dict[str, Any]:
    """Return all that the ingestion of one run needs and no submission may read: keys, rows, support labels."""
    train = [
        {
            "name": name,
            "rows": images[name].place.tolist(),
            "offsets": data.dataset(name).offsets.tolist(),
            "classes": list(data.dataset(name).class_ids),
        }
        for name in phase.train
    ]
    return {
        "seed": seed,
        "size": data.competition.image_size,
        "from_nothing": data.competition.leagues == (META,),
        "logs": phase.logs,
        "log": phase.limits.log,
        "images": {name: images[name].entry for name in (*phase.train, *phase.test)},
        "train": train,
        "tasks": [images[task.dataset].task(task) for task in tasks],
    }


def _truth(tasks: Sequence[HiddenTask]) -> dict[str, Any]:
    """Return the labels, and the quantiles of Student's t that the scoring program has no library for."""
    return {
        "tasks": [
            {
                "dataset": task.dataset,
                "ways": task.ways,
                "shots": task.shots,
                "query_label": task.query_label.tolist(),
            }
            for task in tasks
        ],
        "t95": {count: t_quantile(count - 1, 0.95) for count in range(2, len(tasks) + 1)},
    }


def _scoring() -> dict[str, bytes]:
    files = {
        **_programs("bundle_scoring", "handover"),
        "metadata.yaml": yaml.safe_dump({"command": COMMANDS["scoring"]}).encode(),
        "estimate_text.py": (sandbox.PACKAGE / "statistics" / "estimate_text.py").read_bytes(),
    }
    return files | {f"inside/{path.name}": path.read_bytes() for path in sorted(sandbox.PROGRAM.glob("*.py"))}


def _programs(*names: str, folder: str = "") -> dict[str, bytes]:
    """Read programs under the names that they have in a bundle."""
    return {
        f"{folder}{PACKED_AS.get(name, name)}.py": (PROGRAMS / f"{name}.py").read_bytes() for name in names
    }


def _ingestion() -> dict[str, bytes]:
    """Read the program; below ``host`` is what a submission may read, Longshot included, as in the sandbox."""
    files = {
        **_programs("ingestion"),
        "metadata.yaml": yaml.safe_dump({"command": COMMANDS["ingestion"]}).encode(),
        **_programs("confine", "handover", "sealed_pictures", "bundle_spawn", folder="host/"),
    }
    for path in sorted(sandbox.PROGRAM.glob("*.py")):
        files[f"host/inside/{path.name}"] = path.read_bytes()
    for path in sorted(sandbox.PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            files[f"host/longshot/{path.relative_to(sandbox.PACKAGE).as_posix()}"] = path.read_bytes()
    return files


def _zip(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
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
