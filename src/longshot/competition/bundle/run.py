"""Run a bundle's own programs on a submission, here: the same mounts as on the platform, inside the sandbox."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import yaml

from longshot.competition import sandbox
from longshot.competition.archive import ArchiveLimits, unpack_any
from longshot.competition.bundle.check import check_bundle
from longshot.competition.limits import RunLimits
from longshot.core.errors import UserError

_ROOM = ArchiveLimits(files=20_000, bytes=20 << 30, depth=12)  # an organiser's own data, not a stranger's


def run_bundle(
    bundle: Path, submission: Path, out: Path, *, phase: str | None = None
) -> list[dict[str, Any]]:
    """Ingest and score ``submission`` with every task of a phase (the first unless named); gives their scores.json.

    The outputs of task i, ``detailed_results.html`` among them, are put into ``out``/i.
    """
    sandbox.require()
    wrong = check_bundle(bundle)
    if wrong:
        more = (
            f" (and {len(wrong) - 1} more; 'longshot compete validate' lists them)" if len(wrong) > 1 else ""
        )
        raise UserError(f"The bundle {bundle} cannot be run: {wrong[0]}{more}")
    scores = []
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(bundle) as archive:
        work = Path(place)
        work.chmod(0o755)  # the sandbox's user looks into it
        described = yaml.safe_load(archive.read("competition.yaml"))
        chosen = _phase(described["phases"], phase)
        limits = RunLimits(seconds=float(chosen.get("execution_time_limit") or 600))
        code = unpack_any(submission, work / "submission")
        for task in described["tasks"]:
            if task["index"] not in chosen["tasks"]:
                continue
            parts: dict[str, Path] = {}
            for key in ("ingestion_program", "scoring_program", "input_data", "reference_data"):
                if key in task:
                    file = work / f"{task['index']}-{key}.zip"
                    with archive.open(task[key]) as data, file.open("wb") as copy:
                        shutil.copyfileobj(data, copy)
                    parts[key] = unpack_any(file, file.with_suffix(""), _ROOM)
            scores.append(_one(parts, code, out / str(task["index"]), work, limits))
    return scores


def _one(parts: dict[str, Path], code: Path, out: Path, work: Path, limits: RunLimits) -> dict[str, Any]:
    results, final = (Path(tempfile.mkdtemp(dir=work)) for _ in range(2))
    if "ingestion_program" in parts:
        mounts = {"/app/program": parts["ingestion_program"], "/app/ingested_program": code}
        if "input_data" in parts:
            mounts["/app/input_data"] = parts["input_data"]
        _program(parts["ingestion_program"], mounts, results, limits, "ingestion")
    mounts = {"/app/program": parts["scoring_program"], "/app/input/res": results}
    if "reference_data" in parts:
        mounts["/app/input/ref"] = parts["reference_data"]
    _program(parts["scoring_program"], mounts, final, limits, "scoring")
    shutil.copytree(final, out, dirs_exist_ok=True)
    path = out / "scores.json"
    if not path.is_file():
        raise UserError("The scoring program wrote no scores.json; mend the program.")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _program(program: Path, mounts: dict[str, Path], output: Path, limits: RunLimits, kind: str) -> None:
    """Run one program; its output folder is the only thing it can write to that lasts."""
    metadata = next(program / name for name in ("metadata.yaml", "metadata") if (program / name).is_file())
    words = shlex.split(yaml.safe_load(metadata.read_text(encoding="utf-8"))["command"])
    if words and words[0] in ("python", "python3"):
        words[0] = sys.executable
    output.chmod(0o777)
    with sandbox.free_slot() as slot, sandbox.system_calls() as filtered:
        output_bind = {"/app/output": output}
        command = sandbox.command(
            words, binds=mounts, limits=limits, slot=slot, writable=output_bind, filtered=filtered
        )
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limits.seconds, pass_fds=filtered
            )
        except subprocess.TimeoutExpired as error:
            raise UserError(f"The {kind} program used up its {limits.seconds:,.0f} seconds.") from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it printed nothing"]
        raise UserError(f"The {kind} program ended with code {done.returncode}: {last[0][:300]}.")


def _phase(phases: list[dict[str, Any]], name: str | None) -> dict[str, Any]:
    if name is None:
        return phases[0]
    for phase in phases:
        if phase["name"] == name:
            return phase
    raise UserError(
        f"The bundle has no phase '{name}'; it has {', '.join(str(phase['name']) for phase in phases)}."
    )
