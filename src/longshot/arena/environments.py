"""Packages of a competition's own: its requirements file, built once into an environment that boxes mount read-only.

An environment is a virtual environment of the running Python whose packages come before those that Longshot runs with;
what those have already is not installed again. It lies in the cache under a hash of the requirements, of Python and of
the packages that boxes compute with, so that a change of any of them is another environment.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import site
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from longshot.arena.sandbox import Equipment
from longshot.arena.settings import Competition, load, template
from longshot.base import (
    LooseRecord,
    UserError,
    cache_dir,
    explain_disk_errors,
    file_lock,
    find_cached,
    hash_text,
    read_json,
    write_json,
)

FOLDER = "environments"  # of the cache
RECORD = "environment.json"  # in a built environment; written last
# kept as they are, unless the requirements name them: the boxes' own program needs them
COMPUTING = ("torch", "numpy")
MOST = 1 << 20  # bytes of a requirements file
_OTHER_FILES = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable")
_FROM = re.compile(r" \(from .*")  # which file or package asked for it
_LINE = re.compile(r"-r \S+ \(line (\d+)\)")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")
# torchvision asks torch for operators when it is imported, which a wheel for another build of torch cannot bring along
_OPERATOR = re.compile(r"operator torchvision::\w+ does not exist")


class Environment(NamedTuple):
    """A built environment."""

    path: Path
    packages: tuple[str, ...]  # "timm 1.0.30", those that it adds
    notes: tuple[str, ...]  # what does not work in it


class _EnvironmentRecord(LooseRecord):
    packages: tuple[str, ...]
    notes: tuple[str, ...]


def build_environment(
    folder: str | Path, *, tell: Callable[[str], None] = lambda text: None
) -> Environment | None:
    """Build the packages that a competition's ``requirements`` ask for, once; boxes then mount them read-only.

    pip installs them as it is set up on this machine. Packages that Longshot runs with are there already; torch and
    NumPy keep their versions unless the file names them.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    tell : callable
        Hears a line about every package that is fetched.

    Returns
    -------
    Environment or None
        The environment, built now or before; None where the competition has no ``requirements``.

    Raises
    ------
    UserError
        With pip's reason, where something cannot be installed.
    """
    text = _text(load(folder))
    if text is None:
        return None
    key = _key(text)
    base = cache_dir(FOLDER)
    with file_lock(base / f"{key}.lock", waiting="another process builds this environment; waiting for it"):
        built = _built(key)
        if built is not None:
            return built
        temporary = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=base))
        try:
            with explain_disk_errors(temporary):
                _build(temporary, text, tell)
                shutil.rmtree(base / key, ignore_errors=True)  # one that never became whole
                temporary.rename(base / key)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return _built(key)


def equipment(competition: Competition) -> Equipment:
    """Return what boxes of a competition have; raise UserError where its packages have not been built."""
    text = _text(competition)
    built = None if text is None else _built(_key(text))
    if text is not None and built is None:
        raise UserError(
            f"The packages of {competition.folder / competition.requirements} have not been built for this Python",
            f"build them with {{competition.build_environment({competition.folder})}}",
        )
    names = tuple(match.group() for line in _lines(text or "") if (match := _NAME.match(line)))
    return Equipment(
        None if built is None else built.path, competition.devices, names, lent_weights(competition)
    )


def lent_weights(competition: Competition) -> Path | None:
    """Return the folder of weights that the organiser lends to submissions; None where there is none."""
    folder = competition.folder / competition.weights
    if not competition.weights:
        return None
    if not folder.is_dir():
        raise UserError(
            f"competition.yaml names the weights {folder}, which is no folder",
            "fill it with safetensors, ONNX, timm or Hugging Face files, or leave out the setting 'weights'",
        )
    return folder


def list_weights(competition: Competition) -> list[tuple[str, int]]:
    """List the name and the bytes of every file that the organiser lends."""
    folder = lent_weights(competition)
    files = [] if folder is None else sorted(path for path in folder.rglob("[!.]*") if path.is_file())
    return [(path.relative_to(folder or path).as_posix(), path.stat().st_size) for path in files]


def _text(competition: Competition) -> str | None:
    """Read the requirements; None where there are none to be built."""
    if not competition.requirements:
        return None
    path = competition.folder / competition.requirements
    try:
        if path.stat().st_size > MOST:
            raise UserError(f"{path} has more than {MOST >> 20} MB; a list of packages is shorter.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"competition.yaml names the requirements {path}, which cannot be read ({error.strerror})",
            "write the file, or leave out the setting 'requirements'",
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no text; write one package per line.") from error
    for line in _lines(text):
        if line.split(maxsplit=1)[0].split("=", 1)[0] in _OTHER_FILES or line.startswith(("-r", "-c", "-e")):
            raise UserError(
                f"{path} has the line '{line[:80]}', but an environment is known by the text of this file alone",
                "write the packages out in it",
            )
    return text


def _lines(text: str) -> list[str]:
    """Return what pip reads: no comments, no empty lines."""
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


def _key(text: str) -> str:
    """Name the environment: equal for equal lines, Python and packages that boxes compute with."""
    machine = (sys.implementation.cache_tag or "", platform.machine(), platform.system())
    return hash_text("2", *_lines(text), *machine, sys.prefix, *_versions(COMPUTING))[:20]


def _versions(names: Sequence[str]) -> list[str]:
    return [f"{name}=={metadata.version(name)}" for name in names]


def _built(key: str) -> Environment | None:
    path = find_cached(FOLDER, key)
    if path is None or not (path / RECORD).is_file():
        return None
    record = read_json(_EnvironmentRecord, path / RECORD, "The record of an environment")
    return Environment(path, record.packages, record.notes)


def _build(folder: Path, text: str, tell: Callable[[str], None]) -> None:
    """Build everything in ``folder``, and write the record last."""
    venv.EnvBuilder(with_pip=False, symlinks=True, clear=True).create(folder)
    python = folder / "bin" / "python"
    (packages,) = folder.glob("lib/python*/site-packages")
    parents = "".join(f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages())
    (packages / "_longshot_parent.pth").write_text(parents, encoding="utf-8")
    lines = _lines(text)
    names = [match.group() for line in lines if (match := _NAME.match(line))]
    named = {name.lower() for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        copy, fixed = Path(scratch, "requirements.txt"), Path(scratch, "constraints.txt")
        copy.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        fixed.write_text("\n".join(_versions([name for name in COMPUTING if name not in named])))
        _pip(python, lines, ["-r", str(copy), "-c", str(fixed)], tell)
    reasons = _imports(python, names)
    notes = []
    if _OPERATOR.search(reasons.get("torchvision", "")):
        (packages / "_longshot_torchvision.py").write_text(
            template("torchvision_operators.py.txt"), encoding="utf-8"
        )
        (packages / "_longshot_torchvision.pth").write_text(
            "import _longshot_torchvision\n", encoding="utf-8"
        )
        reasons = _imports(python, names)
        notes.append(
            "torchvision is built for another torch than this one: its models and transforms work, its compiled "
            "operators (nms, roi_align, …) do not"
        )
    notes += [f"{name} cannot be imported: {reason}" for name, reason in reasons.items() if reason]
    added = sorted(path.name.removesuffix(".dist-info") for path in packages.glob("*.dist-info"))
    for path in (folder, *folder.rglob("*")):  # the sandbox's user reads it, whatever the umask
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
    record = {
        "packages": [name.replace("-", " ", 1) for name in added],
        "notes": notes,
        "requirements": lines,
    }
    write_json(folder / RECORD, record)


def _pip(python: Path, lines: list[str], arguments: list[str], tell: Callable[[str], None]) -> None:
    """Install ``lines`` into the environment of ``python`` with the pip that Longshot runs with."""
    quiet = "--no-input --disable-pip-version-check --progress-bar off --no-warn-script-location"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", *quiet.split(), *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        last, errors = "", list[str]()
        for raw in process.stdout:
            line = raw.strip()
            last = line or last
            if line.startswith("ERROR: "):
                errors.append(line.removeprefix("ERROR: "))
            elif line.startswith(("Collecting ", "Processing ", "Downloading ", "Installing ", "Building ")):
                tell(_FROM.sub("", line))
    if process.returncode:
        if "No module named pip" in last:
            raise UserError("This Python has no pip", "add it with 'python -m ensurepip'")
        # the first error says which requirement, those behind it that the installation failed
        reason = (errors[0] if errors else last or f"it ended with code {process.returncode}").rstrip(".")
        # the line, not our copy of the file
        reason = _LINE.sub(lambda match: lines[int(match.group(1)) - 1], reason)
        raise UserError(
            f"pip cannot install the packages of the competition: {reason[:300]}",
            "change its requirements file, or give pip a place that has them (PIP_FIND_LINKS, PIP_INDEX_URL)",
        )


def _imports(python: Path, names: list[str]) -> dict[str, str]:
    """Map each named distribution → why it cannot be imported, empty where it can."""
    done = subprocess.run(
        [str(python), "-s", "-c", template("import_packages.py.txt"), *names],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise UserError(f"The environment's Python does not work: {last[:200]}.")
    reasons: dict[str, str] = json.loads(done.stdout.strip().splitlines()[-1])
    return reasons
