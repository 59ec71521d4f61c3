"""Small commands against the version before: what a user waits for when there is next to nothing to compute.

`inspect`, `datasets show`, a uniform `sample` and `report` on a folder of 480 small photos in 24 classes and a run of
200 tasks × 2 methods; whole processes, each version with a cache and files of its own, in turns, in processor seconds.

    python -m benchmarks startup
    python -m benchmarks.startup inspect report     some of the commands
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.before import run_command, run_python, source_before
from benchmarks.goals import tell
from benchmarks.rounds import in_turns, ratio

CLASSES, PER_CLASS, SIZE, TASKS = 24, 20, 48, 200
ROUNDS = 7
COMMANDS: dict[str, list[str]] = {
    "inspect": ["inspect", "tasks.parquet"],
    "datasets-show": ["datasets", "show", "photos"],
    "sample": ["sample", "photos", "--tasks", str(TASKS), "--query", "10", "-o", "again.parquet"],
    "report": ["report", "run", "-o", "report.html"],
}
PATHS = {"photos", "tasks.parquet", "again.parquet", "run", "report.html"}


def write_photos(folder: Path) -> Path:
    """Class folders of noisy squares, each class of a colour of its own."""
    generator = np.random.default_rng(0)
    for number in range(CLASSES):
        target = folder / "photos" / f"class{number:02d}"
        target.mkdir(parents=True)
        colour = generator.integers(40, 216, 3)
        for image in range(PER_CLASS):
            pixels = np.clip(colour + generator.normal(0, 40, (SIZE, SIZE, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(target / f"{image:03d}.jpg")
    return folder


def prepare(folder: Path, source: Path | None) -> Callable[[Sequence[str]], float]:
    """Photos, a testbed and a run made by one version; what it returns runs a command there, in processor seconds."""
    write_photos(folder)

    def run(words: Sequence[str]) -> float:
        arguments = [str(folder / word) if word in PATHS else word for word in words]
        return run_command(arguments, source, LONGSHOT_CACHE=str(folder / "cache")).cpu

    run(["sample", "photos", "--tasks", str(TASKS), "--query", "10", "-o", "tasks.parquet"])
    methods = ["--method", "protonet", "--method", "ridge"]
    run(["evaluate", "tasks.parquet", "--backbone", "pixels", *methods, "-o", "run"])
    return run


def main(*chosen: str) -> None:
    with tempfile.TemporaryDirectory(prefix="longshot-startup-") as name:
        now = prepare(Path(name, "now"), None)
        before = prepare(Path(name, "before"), source_before())
        for command in chosen or COMMANDS:
            words = COMMANDS[command]
            seconds = in_turns({"now": partial(now, words), "before": partial(before, words)}, ROUNDS)
            tell(
                f"start-{command}",
                ratio(seconds["now"], seconds["before"]),
                bound=partial(imports, Path(name, "now"), words, min(seconds["now"])),
            )


def imports(folder: Path, words: Sequence[str], least: float) -> str:
    """Where a command's time goes: Python's own start, and the libraries whose import takes most."""
    arguments = [str(folder / word) if word in PATHS else word for word in words]
    bare = min(run_python(["-c", "pass"]).cpu for _ in range(3))
    profiled = ["-X", "importtime", "-m", "longshot", *arguments]
    text: str = run_python(profiled, LONGSHOT_CACHE=str(folder / "cache")).answer
    spent: dict[str, int] = {}
    for line in text.splitlines():
        if line.startswith("import time:") and "imported package" not in line:
            own, _, module = line.removeprefix("import time:").split("|")
            library = module.strip().split(".")[0]
            spent[library] = spent.get(library, 0) + int(own)
    largest = sorted(spent, key=lambda library: -spent[library])[:5]
    shares = ", ".join(f"{library} {spent[library] / sum(spent.values()):.0%}" for library in largest)
    return f"{least:.2f} s of the processor, {bare:.2f} s of it Python itself; of importing, {shares}"


if __name__ == "__main__":
    main(*sys.argv[1:])
