"""What is looked at before a submission is taken: participants run the same check at home, without a competition."""

from __future__ import annotations

import ast
import filecmp
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple, get_args

from longshot.arena.archive import ArchiveLimits, unpack
from longshot.arena.inside.shipped import parsed, shipped_weights
from longshot.arena.settings import FREE, META, League
from longshot.base import UserError, nearest

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
        raise UserError(f"There is no league '{league}'; {nearest(league, get_args(League), 'there are:')}")
    source = Path(submission)
    check_size(source)
    return check_files(source, league, source.name)


def check_size(source: Path) -> None:
    """UserError where there is nothing, or more than is taken."""
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
    """Whether two folders of the competition keep the same submission, byte by byte."""
    zips = [folder / "submission.zip" for folder in (first, second)]
    if all(path.is_file() for path in zips):
        return filecmp.cmp(zips[0], zips[1], shallow=False)
    trees = [folder / "submission" for folder in (first, second)]
    names = [
        sorted(path.relative_to(tree) for path in tree.rglob("*") if path.is_file())
        if tree.is_dir()
        else None
        for tree in trees
    ]
    if names[0] is None or names[0] != names[1]:
        return False
    return all(filecmp.cmp(trees[0] / path, trees[1] / path, shallow=False) for path in names[0])


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
    """Names that a module defines at its top; None where that cannot be told without running it."""
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
    """Lines that ask for pre-trained weights, should they ever run: for the participant to look at, no findings."""
    return [
        f"{path.relative_to(folder).as_posix()}:{line} {asks}"
        for path in sorted(folder.rglob("*.py"))
        if path.is_file()
        for line, asks in _requests(path)
    ]


def _requests(path: Path) -> list[tuple[int, str]]:
    """(line, text) for calls that ask for pre-trained weights."""
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
