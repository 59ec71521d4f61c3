"""What a participant hands in: an archive that is unpacked with no trust in it, code that is looked at, a fact sheet.

Participants run the same check at home, without a competition. The meta-learning league is judged by what a submission
brings along, reads and does, not by what its text mentions: no saved weights are among its files, and while it runs
who asks for the network or for weights among the installed packages has broken the rule and is told so.
"""

from __future__ import annotations

import ast
import filecmp
import json
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias, get_args

import yaml

from longshot.arena.inside.league import parsed, shipped_weights
from longshot.arena.inside.wire import readable
from longshot.arena.settings import FACT_FIELDS, FREE, META, League
from longshot.base import (
    ArchiveLimits,
    ArchiveNames,
    UserError,
    archive_error,
    extract_zip,
    nearest_name,
    printable_name,
)


def unpack(source: Path, folder: Path, limits: ArchiveLimits | None = None) -> Path:
    """Unpack a submission into the new ``folder``; gives the folder that holds model.py (UserError when none does)."""
    unpack_any(source, folder, limits)
    try:
        return _root(source, folder)
    except UserError:
        shutil.rmtree(folder)
        raise


def unpack_any(source: Path, folder: Path, limits: ArchiveLimits | None = None) -> Path:
    """Unpack the zip (or copy the folder) ``source`` into the new ``folder``, and give it back.

    UserError in one sentence for a path that leaves the folder, a link, too many files or bytes, an encrypted or
    damaged archive. What was unpacked until then is removed.
    """
    limits = limits or ArchiveLimits()
    folder.mkdir(parents=True)
    try:
        (_copy if source.is_dir() else extract_zip)(source, folder, limits)
        for path in (folder, *folder.rglob("*")):  # the sandbox's user reads it, whatever the umask
            path.chmod(0o755 if path.is_dir() else 0o644)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return folder


def write_zip(source: Path, target: Path) -> None:
    """Pack the folder of a submission as the zip ``target``, the same bytes whenever its files are the same."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(source.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                entry = zipfile.ZipInfo(path.relative_to(source).as_posix())
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def _copy(source: Path, folder: Path, limits: ArchiveLimits) -> None:
    """Copy a folder instead of a zip, held to the same rules."""
    count, budget, names = 0, limits.bytes, ArchiveNames(source)
    for path in sorted(source.rglob("*")):
        if "__pycache__" in path.parts:
            continue
        names.check(path.relative_to(source).as_posix())
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise archive_error(
                source, f"'{printable_name(path.name)}' is a link or a special file, not a file"
            )
        if path.is_dir():
            continue
        count, budget = count + 1, budget - path.stat().st_size
        if count > limits.files or budget < 0:
            most = f"{limits.files:,} files or {limits.bytes >> 20:,} MB"
            raise archive_error(source, f"it holds more than {most}, which are allowed")
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _root(source: Path, folder: Path) -> Path:
    """Find the folder with model.py: the top, or the one folder that the zip was made of."""
    if (folder / "model.py").is_file():
        return folder
    inner = [path for path in folder.iterdir() if path.is_dir() and path.name != "__MACOSX"]
    if len(inner) == 1 and (inner[0] / "model.py").is_file():
        return inner[0]
    raise archive_error(source, "there is no model.py at its top")


CLASSES = ("MyMetaLearner", "MyLearner")
SOURCE = 5 << 20  # bytes of model.py and of config.json: they are read whole
_DYNAMIC = {"exec", "globals", "vars", "setattr"}  # calls that may define a name without writing it
_PRETRAINED = {"pretrained", "weights"}  # keyword arguments of model makers
_LOADERS = {
    "load_state_dict_from_url",
    "load_url",
    "from_pretrained",
    "hf_hub_download",
    "download_url_to_file",
}


class SubmissionCheck(NamedTuple):
    """A submission that would be taken."""

    files: int
    bytes: int
    notes: tuple[str, ...]  # lines that its league refuses where they run


def check_submission(submission: str | Path, *, league: str = FREE) -> SubmissionCheck:
    """Check a submission as ``submit`` does before it takes it: no competition is needed and nothing is run.

    Looked at are the archive (paths, links, sizes, damage), model.py (it can be parsed and defines both classes),
    config.json, and in the meta-learning league whether weights come along.

    Parameters
    ----------
    submission : str or Path
        A folder or a zip with a model.py.
    league : str
        League it is to compete in.

    Returns
    -------
    SubmissionCheck
        The number of its files, their bytes, and notes on lines that ask for pre-trained weights.

    Raises
    ------
    UserError
        With what is wrong with it.

    Examples
    --------
    >>> import longshot.arena as competition
    >>> competition.write_baseline("random", "guess").name
    'guess'
    >>> competition.check_submission("guess").files
    2
    """
    if league not in get_args(League):
        raise UserError(
            f"There is no league '{league}'; {nearest_name(league, get_args(League), 'there are:')}"
        )
    source = Path(submission)
    check_size(source)
    return check_files(source, league, source.name)


def check_size(source: Path) -> None:
    """Raise UserError where there is nothing, or more than is taken."""
    if not source.exists():
        raise UserError(f"There is no submission at {source}; give a folder or a zip with a model.py in it.")
    most = ArchiveLimits().bytes
    if source.is_file() and source.stat().st_size > most:
        raise UserError(
            f"The submission {source.name} has {source.stat().st_size / 2**20:,.0f} MB, at most {most >> 20:,} are "
            f"allowed",
            "make it smaller",
        )


def check_files(source: Path, league: str, name: str) -> SubmissionCheck:
    """Unpack a submission for a moment and look at its files; errors call it ``name``."""
    with tempfile.TemporaryDirectory(prefix="longshot-check-") as folder:
        try:
            code = unpack(source, Path(folder, "code"))
        except UserError as error:
            raise UserError(error.fact.replace(f"archive {source.name} ", f"archive {name} ", 1)) from None
        return check_code(code, league, name)


def check_code(code: Path, league: str, name: str) -> SubmissionCheck:
    """Look at an unpacked submission; errors call it ``name``."""
    _check_model(code / "model.py", name)
    _check_config(code / "config.json", name)
    notes: list[str] = []
    if league == META:
        if findings := shipped_weights(code):
            raise UserError(
                f"The meta-learning league allows no saved weights, but {'; '.join(findings[:3])}",
                "leave them out or choose another {league}",
            )
        notes = mentions(code)
    sizes = [path.stat().st_size for path in code.rglob("*") if path.is_file()]
    return SubmissionCheck(len(sizes), sum(sizes), tuple(notes))


def same_files(first: Path, second: Path) -> bool:
    """Tell whether two folders of the competition hold the same submission, byte by byte."""
    one_zip, other_zip = first / "submission.zip", second / "submission.zip"
    return one_zip.is_file() and other_zip.is_file() and filecmp.cmp(one_zip, other_zip, shallow=False)


def _check_model(path: Path, name: str) -> None:
    _check_length(path, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its escapes and comparisons: not ours to say
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise UserError(
            f"The submission {name} cannot be taken: its model.py is no Python:{line} {reason}."
        ) from None
    defined = _defined(tree.body)
    lacking = [cls for cls in CLASSES if defined is not None and cls not in defined]
    if lacking:
        raise UserError(
            f"The submission {name} cannot be taken: its model.py defines {len(CLASSES) - len(lacking)} of the "
            f"{len(CLASSES)} classes that are needed",
            f"add {' and '.join(lacking)}",
        )


def _check_config(path: Path, name: str) -> None:
    if not path.is_file():
        return
    from longshot.arena.inside import feed  # here: it imports torch

    _check_length(path, name)
    try:
        feed.read_config(path)
    except feed.ConfigError as error:
        reason = str(error)
    except Exception as error:  # a number where settings belong, a depth beyond all bounds
        reason = f"its config.json cannot be read ({type(error).__name__})"
    else:
        return
    raise UserError(f"The submission {name} cannot be taken: {reason}.")


def _check_length(path: Path, name: str) -> None:
    size = path.stat().st_size
    if size > SOURCE:
        raise UserError(
            f"The submission {name} cannot be taken: its {path.name} has {size / 2**20:,.1f} MB, at most "
            f"{SOURCE >> 20} are allowed."
        )


def _defined(body: list[ast.stmt]) -> set[str] | None:
    """Collect names that a module defines at its top; None where that cannot be told without running it."""
    names: set[str] = set()
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
            continue  # what is defined within it is not the module's
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _DYNAMIC:
            return None
        todo += ast.iter_child_nodes(node)
    return None if "*" in names else names


def mentions(folder: Path) -> list[str]:
    """List lines that ask for pre-trained weights, should they ever run: for the participant, no findings."""
    return [
        f"{path.relative_to(folder).as_posix()}:{line} {asks}"
        for path in sorted(folder.rglob("*.py"))
        if path.is_file()
        for line, asks in _requests(path)
    ]


def _requests(path: Path) -> list[tuple[int, str]]:
    """List (line, text) for calls that ask for pre-trained weights."""
    requests = []
    for node in parsed(path):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _LOADERS:
            requests.append((node.lineno, f"calls {name}"))
        for keyword in node.keywords:
            value = keyword.value
            plain = isinstance(value, ast.Constant) and not value.value
            # weights= is also the name of a list of numbers: only a text or a member of an enumeration is a network's.
            telling = keyword.arg == "pretrained" or (
                isinstance(value, ast.Attribute)
                or (isinstance(value, ast.Constant) and isinstance(value.value, str))
            )
            if keyword.arg in _PRETRAINED and not plain and telling:
                requests.append((node.lineno, f"asks for {keyword.arg}={ast.unparse(value)[:40]}"))
    return requests


PRIVATE = ("authors", "contact", "email")  # not shown beside a pseudonym
LARGEST = 64 << 10  # bytes of a sheet
MOST = 40  # fields

FactSheet: TypeAlias = dict[str, str]


def read_sheet(path: Path) -> FactSheet:
    """Read a team's file; raise UserError when it is no list of named texts."""
    if not path.is_file():
        raise UserError(
            f"There is no fact sheet at {path}; give a YAML or JSON file with fields such as 'title'."
        )
    if path.stat().st_size > LARGEST:
        raise UserError(
            f"The fact sheet {path} has {path.stat().st_size >> 10:,} KB, at most {LARGEST >> 10} are allowed."
        )
    try:
        sheet = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # undecodable bytes are a ValueError
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"The fact sheet {path} is neither YAML nor JSON: {reason}.") from error
    if not isinstance(sheet, dict) or not sheet or len(sheet) > MOST:
        content = f"{len(sheet)} fields" if isinstance(sheet, dict) else type(sheet).__name__
        raise UserError(
            f"The fact sheet {path} holds {content}; 1 to {MOST} lines such as 'title: Nearest means' are needed."
        )
    return {str(name)[:100]: _text(value, str(name), path) for name, value in sheet.items()}


def parse_sheet(fields: Mapping[str, str]) -> FactSheet:
    """Check a sheet that came over the network by the rules of one that came as a file."""
    size = sum(len(f"{name}{text}".encode("utf-8", "surrogatepass")) for name, text in fields.items())
    if not 1 <= len(fields) <= MOST or size > LARGEST:
        raise UserError(
            f"The fact sheet has {len(fields)} fields and {size / 1024:,.0f} KB; 1 to {MOST} fields and at most "
            f"{LARGEST >> 10} KB are allowed."
        )
    return {readable(name)[:100]: readable(text).strip() for name, text in fields.items()}


def _text(value: object, name: str, path: Path) -> str:
    """Return a plain value, or a list of them on one line."""
    texts = value if isinstance(value, list) else [value]
    if any(isinstance(text, dict | list) for text in texts):
        raise UserError(
            f"The field '{name[:100]}' of the fact sheet {path} holds more than a text; write a text."
        )
    return ", ".join("" if text is None else str(text).strip() for text in texts)


def dump_sheet(sheet: Mapping[str, str]) -> str:
    """Write the sheet as it is stored."""
    return json.dumps(dict(sheet), ensure_ascii=False)


def stored_sheet(text: str | None) -> FactSheet:
    """Read a sheet as it was stored; a text that is no sheet counts as its summary."""
    if not text:
        return {}
    try:
        sheet = json.loads(text)
    except ValueError:
        sheet = text
    if not isinstance(sheet, dict):
        return {"summary": text}
    return {str(key): str(value) for key, value in sheet.items()}


def missing_fields(sheet: Mapping[str, str], fields: Sequence[str]) -> list[str]:
    """List the fields that are asked for and not filled in."""
    return [name for name in fields if not sheet.get(name, "").strip()]


def blank_sheet(fields: Sequence[str]) -> str:
    """Write an empty sheet to fill in."""
    return "".join(f"{name}:  # {FACT_FIELDS.get(name, 'please fill in')}\n" for name in fields)
