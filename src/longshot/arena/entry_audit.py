"""What an entry owes to what it brought: it is run again with noise in the place of that, and its loss is told.

A submission may bring weights as a file, as text, as pixels or as literals in its code. So all of these are replaced by
noise of the same size and shape: whoever learns from the competition's data alone scores as before, and whoever brought
knowledge along falls to what a random start gives, or does not run at all.
"""

from __future__ import annotations

import ast
import io
import json
import math
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from longshot.arena import queue, submission_runs
from longshot.arena.competition_data import CompetitionData
from longshot.arena.inside.league import WEIGHTS
from longshot.arena.local_competition import begin_trial
from longshot.arena.result_pages import read_records
from longshot.arena.settings import load
from longshot.base import write_json
from longshot.statistics import compare_paired

SPARED = 4 << 10  # compressed bytes of the smallest pieces, which stay: names, messages, settings
MATTERS = 0.02  # of normalised accuracy: a smaller loss may be another order of a sum
_NUMBERS = 8  # in one statement, which count as a literal
_MANY = 200  # in the statements of one block, likewise
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tiff")
_TYPES = {"F64": "f8", "F32": "f4", "F16": "f2", "BF16": "u2", "I64": "i8", "I32": "i4", "I16": "i2"}
How: TypeAlias = Literal["noise", "shuffled"]


class AuditRun(NamedTuple):
    """A run of the entry: as it is, or with something of it replaced."""

    variant: str  # original, noise or shuffled
    score: float | None  # None: it failed
    loss: float | None  # against the original, over the same tasks
    half: float | None  # half of the 95 % interval of that
    reason: str


class EntryAudit(NamedTuple):
    """What came of an audit."""

    runs: list[AuditRun]
    replaced: list[str]  # what became noise: files, and lines with literals
    depends: bool
    verdict: str


def audit_entry(
    folder: str | Path,
    submission: str | Path,
    out: str | Path,
    *,
    phase: str | None = None,
    seed: int | None = None,
) -> EntryAudit:
    """Run an entry again with noise in the place of what it brought, and with its weights shuffled.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    submission : str or Path
        A number, a folder or a zip with a model.py.
    out : folder
        A new folder for the runs and audit.json.
    phase : str, optional
        Phase whose tasks are answered. Default: the last.
    seed : int, optional
        Seed of the runs. Default: the phase's first.

    Returns
    -------
    EntryAudit
        Its runs, what was replaced, and whether the entry depends on it.
    """
    competition, out = load(folder), Path(out)
    chosen = competition.phase(phase) if phase else competition.final
    source = Path(submission)
    if str(submission).isdecimal():
        source = queue.archive_path(competition, int(str(submission))) / "submission.zip"
    code, equipment = begin_trial(competition, source, out)
    data = CompetitionData(competition)
    runs, replaced, tasks = list[AuditRun](), list[str](), list[float]()
    for variant in ("original", "noise", "shuffled"):
        altered = code
        if variant != "original":
            altered = Path(shutil.copytree(code, out / f"{variant}-code"))
            names = alter(altered, variant, np.random.default_rng(0))  # type: ignore[arg-type]
            replaced += names if variant == "noise" else []
            if not names:
                continue
        number = chosen.seeds[0] if seed is None else seed
        outcome = submission_runs.run(data, chosen, altered, out / variant, seed=number, equipment=equipment)
        if outcome.scores is None:
            if variant == "original":
                raise submission_runs.SubmissionFailed(f"The submission failed: {outcome.reason}")
            runs.append(AuditRun(variant, None, None, None, str(outcome.reason).strip().rpartition("\n")[2]))
            continue
        records = read_records([out / variant]) or []
        scores = [score for record in records for score in record.normalized_accuracy]
        tasks = tasks or scores
        loss = compare_paired(scores, tasks).difference
        half = None if loss.half is None or math.isnan(loss.half) else loss.half
        runs.append(AuditRun(variant, float(np.mean(scores)), loss.mean, half, ""))
    for copy in ("code", "noise-code", "shuffled-code"):
        shutil.rmtree(out / copy, ignore_errors=True)
    losses = [run for run in runs if run.loss is None or run.loss - (run.half or 0.0) > MATTERS]
    audit = EntryAudit(runs, replaced, bool(losses), _verdict(runs, losses, replaced))
    write_json(out / "audit.json", {**audit._asdict(), "runs": [run._asdict() for run in runs]})
    return audit


def _verdict(runs: list[AuditRun], losses: list[AuditRun], replaced: list[str]) -> str:
    if not replaced:
        return "it brought nothing that could hold weights"
    if not losses:
        return "it does as well without what it brought"
    fall = losses[0]
    if fall.score is None:
        return f"depends on what it brought: it does not run without it ({fall.variant})"
    return f"depends on what it brought: {runs[0].score:.4f} falls to {fall.score:.4f} ({fall.variant})"


class _Piece(NamedTuple):
    """A file, or a literal in code: what may hold weights."""

    name: str
    size: int  # compressed
    replace: Callable[[], None]


def alter(folder: Path, how: How, rng: np.random.Generator) -> list[str]:
    """Replace what a submission brought in its unpacked ``folder``; return names of what was replaced.

    ``shuffled`` changes files of weights alone.
    """
    pieces, trees = list[_Piece](), dict[Path, ast.AST]()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name, data = path.relative_to(folder).as_posix(), path.read_bytes()
        weights = path.suffix.lower() in WEIGHTS or path.suffix.lower() == ".npy"
        tree = _tree(data) if path.suffix == ".py" else None
        if tree is not None and how == "noise":
            trees[path] = tree  # comments are gone from what is written of it
            pieces += _literals(tree, name, rng)
        elif tree is None and (weights or how == "noise"):
            size = len(zlib.compress(data)) + (SPARED if weights else 0)  # which never stay
            pieces.append(_Piece(name, size, partial(_replace_file, path, how, rng)))
    spared, replaced = 0, []
    for piece in sorted(pieces, key=lambda piece: piece.size):
        spared += piece.size
        if spared > SPARED:
            piece.replace()
            replaced.append(piece.name)
    for path, tree in trees.items():
        path.write_text(ast.unparse(tree), encoding="utf-8")
    return sorted(set(replaced))


def _tree(data: bytes) -> ast.AST | None:
    """Parse code; None where it is no Python, or none that can be written again: it is replaced as a text."""
    try:
        tree = ast.parse(data)
        ast.unparse(tree)  # too deep for some that can be parsed
        return tree
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _literals(tree: ast.AST, name: str, rng: np.random.Generator) -> Iterator[_Piece]:
    """List texts, bytes, large numbers and many numbers together in code, docstrings too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            value: Any = node.value
            changed: Any = None
            if isinstance(value, str) and len(value) > 1:
                changed = shuffled_text(value, rng)
            elif isinstance(value, bytes) and len(value) > 1:
                changed = rng.permutation(np.frombuffer(value, np.uint8)).tobytes()
            elif isinstance(value, int) and value.bit_length() > 64:
                changed = int(rng.integers(2**62))
            if changed is not None:
                text = hex(value) if isinstance(value, int) else repr(value)
                size = len(zlib.compress(text.encode("utf-8", "replace")))
                yield _Piece(f"{name}:{node.lineno}", size, partial(setattr, node, "value", changed))
    for line, numbers in _numbers(tree):
        values = [number.value for number in numbers]
        size = len(zlib.compress(" ".join(map(str, values)).encode()))
        yield _Piece(f"{name}:{line}", size, partial(_exchange, numbers, rng.permutation(len(values))))


def _numbers(tree: ast.AST) -> Iterator[tuple[int, list[ast.Constant]]]:
    """List the numbers that stand together, with their line: in a statement, or in the statements of a block."""
    for node in ast.walk(tree):
        for part in ("body", "orelse", "finalbody"):
            block = getattr(node, part, None)
            if not isinstance(block, list):  # a lambda's
                continue
            each = [list(_own_numbers(statement)) for statement in block]
            if sum(map(len, each)) >= _MANY:
                yield block[0].lineno, [number for numbers in each for number in numbers]
            else:
                yield from (
                    (statement.lineno, numbers)
                    for statement, numbers in zip(block, each, strict=True)
                    if len(numbers) >= _NUMBERS
                )


def _own_numbers(node: ast.AST) -> Iterator[ast.Constant]:
    """List numbers of a statement, without those of statements within it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, int | float | complex):
            yield child
        elif not isinstance(child, ast.stmt):
            yield from _own_numbers(child)


def _exchange(numbers: list[ast.Constant], order: np.ndarray[Any, Any]) -> None:
    """Give numbers the values of others among them."""
    values = [number.value for number in numbers]
    for number, source in zip(numbers, order, strict=True):
        number.value = values[source]


def shuffled_text(text: str, rng: np.random.Generator) -> str:
    """Permute letters, digits, white space and signs of a text among their own kind.

    >>> shuffled_text("aaa 11 B", np.random.default_rng(0))
    'aaa 11 B'
    """
    letters = list(text)
    kinds = [(letter.isdigit(), letter.isspace(), letter.isalpha(), letter.isascii()) for letter in letters]
    for kind in set(kinds):
        positions = [position for position, each in enumerate(kinds) if each == kind]
        for position, source in zip(positions, rng.permutation(positions), strict=True):
            letters[position] = text[source]
    return "".join(letters)


def _replace_file(path: Path, how: How, rng: np.random.Generator) -> None:
    data = path.read_bytes()
    try:
        path.write_bytes(_noise_like(path.suffix.lower(), data, how, rng))
    except Exception:  # it is not what its name says
        path.write_bytes(rng.permutation(np.frombuffer(data, np.uint8)).tobytes())


def _noise_like(suffix: str, data: bytes, how: How, rng: np.random.Generator) -> bytes:
    """Return a file of the same kind, size and shape without what it held."""
    if suffix == ".safetensors":
        start = 8 + int.from_bytes(data[:8], "little")
        body = bytearray(data)
        for tensor, facts in json.loads(data[8:start]).items():
            if tensor != "__metadata__":
                low, high = (start + offset for offset in facts["data_offsets"])
                values = np.frombuffer(data[low:high], _TYPES.get(facts["dtype"], "u1"))
                body[low:high] = _values(values, how, rng).tobytes()
        return bytes(body)
    if suffix == ".npy":
        out = io.BytesIO()
        np.save(out, _values(np.load(io.BytesIO(data), allow_pickle=False), how, rng))
        return out.getvalue()
    if zipfile.is_zipfile(io.BytesIO(data)):  # torch's files, npz
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as copy:
            for entry in archive.infolist():
                content = archive.read(entry)
                if entry.filename.endswith(".npy"):
                    content = _noise_like(".npy", content, how, rng)
                elif "/data/" in entry.filename and len(content) % 4 == 0:
                    content = _values(np.frombuffer(content, "<f4"), how, rng).tobytes()
                copy.writestr(entry, content)
        return out.getvalue()
    if suffix in _IMAGES:
        from PIL import Image

        with Image.open(io.BytesIO(data)) as image:
            pixels = rng.integers(0, 256, np.asarray(image).shape, dtype=np.uint8)
            out = io.BytesIO()
            Image.fromarray(pixels).save(out, image.format)
        return out.getvalue()
    # what is no text is an error, and permuted byte by byte
    return shuffled_text(data.decode(), rng).encode()


def _values(values: np.ndarray[Any, Any], how: How, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return numbers of the same shape: permuted, or normal with the same mean and deviation."""
    noise: np.ndarray[Any, Any] = rng.permutation(values.ravel()).reshape(values.shape)
    if how == "noise" and values.dtype.kind == "f" and np.isfinite(values).all():
        noise = rng.normal(values.mean(), values.std(), values.shape).astype(values.dtype)
    return noise
