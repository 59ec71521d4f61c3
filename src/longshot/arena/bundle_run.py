"""Run a bundle's own programs on a submission, here: with the platform's mounts and files, inside the sandbox.

A ``command`` of the submission's own is not started: no bundle of Longshot's runs beside one.
"""

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

from longshot.arena import sandbox
from longshot.arena.bundle_check import check_bundle
from longshot.arena.bundle_programs.handover import METADATA
from longshot.arena.settings import RunLimits
from longshot.arena.submission_check import check_size, unpack_any
from longshot.arena.submission_runs import SubmissionFailed
from longshot.base import ArchiveLimits, UserError, claim_folder, read_record

_ROOM = ArchiveLimits(files=20_000, bytes=20 << 30, depth=12)  # an organiser's own data, not a stranger's


def run_bundle(
    bundle: str | Path, submission: str | Path, out: str | Path, *, phase: str | None = None
) -> list[dict[str, Any]]:
    """Ingest and score a submission with a bundle's own programs, in the sandbox.

    Parameters
    ----------
    bundle : str or Path
        A Codabench bundle, Longshot's or any other.
    submission : str or Path
        A folder or a zip with a model.py.
    out : folder
        Folder for what it writes. ``out``/i has the scores.json and the page of task i.
    phase : str, optional
        Phase to run. Default: the first.

    Returns
    -------
    list of dict
        The scores.json of every task.
    """
    sandbox.require()
    check_size(Path(submission))
    mistakes = check_bundle(bundle)
    if mistakes:
        more = f" (and {len(mistakes) - 1} more; {{competition.check_bundle({bundle})}} lists them)"
        raise UserError(
            f"The bundle {bundle} cannot be run: {mistakes[0]}{more if len(mistakes) > 1 else ''}"
        )
    scores = []
    with tempfile.TemporaryDirectory() as temporary, zipfile.ZipFile(bundle) as archive:
        work = Path(temporary)
        work.chmod(0o755)  # the sandbox's user looks into it
        described = yaml.safe_load(archive.read("competition.yaml"))
        claim_folder(out, "trial", [str(task["index"]) for task in described["tasks"]])
        chosen = _phase(described["phases"], phase)
        seconds = {"seconds": chosen.get("execution_time_limit") or 600}
        limits = read_record(RunLimits, seconds, f"The phase '{chosen['name']}' of the bundle")
        code = unpack_any(Path(submission), work / "submission")
        size = sum(path.stat().st_size for path in code.rglob("*") if path.is_file())
        # ingestion's own copy is on its disk
        limits = limits.model_copy(update={"disk": limits.disk + 3 * size})
        for task in described["tasks"]:
            if task["index"] not in chosen["tasks"]:
                continue
            entry = _writable(code, work / f"{task['index']}-submission")  # before the programs, as there
            parts: dict[str, Path] = {}
            for key in ("ingestion_program", "scoring_program", "input_data", "reference_data"):
                if key in task:
                    file = work / f"{task['index']}-{key}.zip"
                    with archive.open(task[key]) as data, file.open("wb") as copy:
                        shutil.copyfileobj(data, copy)
                    parts[key] = unpack_any(file, file.with_suffix(""), _ROOM)
            scores.append(_run_task(parts, entry, Path(out) / str(task["index"]), work, limits))
    return scores


def _run_task(parts: dict[str, Path], code: Path, out: Path, work: Path, limits: RunLimits) -> dict[str, Any]:
    """Ingest and score one task; gives its scores.json."""
    results, final = (Path(tempfile.mkdtemp(dir=work)) for _ in range(2))
    for folder in (results, final):
        folder.chmod(0o777)
    if not any((code / name).exists() for name in METADATA):
        _writable(code, results)
    if "ingestion_program" in parts:
        mounts = {"/app/program": parts["ingestion_program"]}
        if "input_data" in parts:
            mounts["/app/input_data"] = parts["input_data"]
        shared = {"/app/output": results, "/app/ingested_program": code}
        _program(parts["ingestion_program"], mounts, shared, limits, "ingestion")
        try:  # never through a link that the program left there
            with (results / METADATA[1]).open("x", encoding="utf-8") as record:
                record.write("ingestionExitCode: 0\n")
        except FileExistsError as error:
            raise UserError(
                "The ingestion program left a file 'metadata' in its output, which the platform writes itself; mend "
                "the program."
            ) from error
    mounts = {"/app/program": parts["scoring_program"], "/app/input/res": results}
    if "reference_data" in parts:
        mounts["/app/input/ref"] = parts["reference_data"]
    _program(parts["scoring_program"], mounts, {"/app/output": final}, limits, "scoring")
    if any(path.is_symlink() for path in final.rglob("*")):
        raise UserError(
            "The scoring program left a link in its output, and only files are taken; mend the program."
        )
    shutil.copytree(final, out, dirs_exist_ok=True)
    path = out / "scores.json"
    if not path.is_file():
        raise UserError("The scoring program wrote no scores.json; mend the program.")
    scores: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return scores


def _writable(source: Path, target: Path) -> Path:
    """Copy a folder so that the sandbox's user may change what is in it; gives ``target``."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        folder.chmod(0o777)
    return target


def _program(
    program: Path, mounts: dict[str, Path], writable: dict[str, Path], limits: RunLimits, kind: str
) -> None:
    """Run one program, which reads ``mounts`` and may write to ``writable``."""
    metadata = next(program / name for name in METADATA if (program / name).is_file())
    words = shlex.split(yaml.safe_load(metadata.read_text(encoding="utf-8"))["command"])
    if words and words[0] in ("python", "python3"):
        words[0] = sys.executable
    with sandbox.free_slot() as slot, sandbox.system_calls() as filtered:
        command = sandbox.command(
            words, binds=mounts, limits=limits, slot=slot, writable=writable, filtered=filtered
        )
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limits.seconds, pass_fds=filtered
            )
        except subprocess.TimeoutExpired as error:
            raise UserError(f"The {kind} program used up its {limits.seconds:,.0f} seconds.") from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it printed nothing"]
        raise SubmissionFailed(f"The {kind} program ended with code {done.returncode}: {last[0][:300]}.")


def _phase(phases: list[dict[str, Any]], name: str | None) -> dict[str, Any]:
    if name is None:
        return phases[0]
    for phase in phases:
        if phase["name"] == name:
            return phase
    raise UserError(
        f"The bundle has no phase '{name}'; it has {', '.join(str(phase['name']) for phase in phases)}."
    )
