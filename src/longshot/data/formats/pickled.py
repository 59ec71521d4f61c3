"""Arrays out of pickles without unpickling: the opcodes are followed, nothing is imported and nothing is called."""

from __future__ import annotations

import pickletools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longshot.base import UserError
from longshot.data.file_readers import reason_of

_LONG = 1024  # strings of this many bytes are told by their place in the file
_HEADS = {  # opcode → bytes between its position and its payload
    "BINSTRING": 5,
    "BINBYTES": 5,
    "BINBYTES8": 9,
    "BYTEARRAY8": 9,
}
_PLAIN = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    )
)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NOTHING = frozenset(("PROTO", "FRAME"))


@dataclass(frozen=True)
class Bytes:
    """A long string: ``length`` bytes at ``offset`` of the file."""

    offset: int
    length: int


@dataclass(frozen=True)
class TextBytes:
    """A long string that is stored as text: Python 3 does so with protocol 2 and below, which know no bytes."""

    length: int


@dataclass(frozen=True)
class Named:
    """A name that unpickling would import."""

    module: str
    name: str


@dataclass(eq=False)
class PickledObject:
    """What unpickling would make by calling ``called(*arguments)``, then giving it ``state``."""

    called: Named
    arguments: tuple[Any, ...]
    state: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Bytes2D:
    """An array of bytes [rows, columns] in row order, at ``offset`` of the file."""

    offset: int
    rows: int
    columns: int


class _Mark:
    """The place on the stack where a group begins."""


class PickleError(UserError):
    """A pickle that this reader does not follow."""


def read_pickle(path: Path) -> Any:
    """The plain values (dicts, lists, numbers, strings) of a pickle; all else as :class:`PickledObject`, uncalled."""
    try:
        with path.open("rb") as file:
            return _follow(file)
    except PickleError as error:
        raise PickleError(f"{path} {error}.") from error
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        EOFError,
        MemoryError,
        OverflowError,
    ) as error:
        reason = str(error) or type(error).__name__  # a length of terabytes has no words of its own
        raise PickleError(f"{path} is not a whole pickle ({reason}); download it again.") from error
    except OSError as error:
        raise PickleError(f"Cannot open {path}: {reason_of(error)}.") from error


def _follow(file: Any) -> Any:
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def group() -> list[Any]:
        at = max(i for i, value in enumerate(stack) if isinstance(value, _Mark))
        values = stack[at + 1 :]
        del stack[at:]
        return values

    instructions: Iterator[tuple[Any, Any, Any]] = pickletools.genops(file)
    for opcode, argument, position in instructions:
        name = opcode.name
        if name in _PLAIN:
            long = name in _HEADS and len(argument) >= _LONG
            stack.append(Bytes(position + _HEADS[name], len(argument)) if long else argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _NOTHING:
            pass
        elif name == "MARK":
            stack.append(_Mark())
        elif name in ("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE"):
            stack.append({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}[name]())
        elif name in ("LIST", "TUPLE"):
            values = group()
            stack.append(values if name == "LIST" else tuple(values))
        elif name == "DICT":
            values = group()
            stack.append(dict(zip(values[::2], values[1::2], strict=True)))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            size = int(name[-1])
            stack[-size:] = [tuple(stack[-size:])]
        elif name == "APPEND":
            value = stack.pop()
            stack[-1].append(value)
        elif name == "APPENDS":
            values = group()
            stack[-1].extend(values)
        elif name in ("SETITEM", "SETITEMS"):
            values = group() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            stack[-1].update(zip(values[::2], values[1::2], strict=True))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "GLOBAL":
            stack.append(Named(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            stack[-2:] = [Named(*stack[-2:])]
        elif name == "REDUCE":
            arguments = stack.pop()
            stack[-1] = _made(stack[-1], tuple(arguments))
        elif name == "BUILD":
            state = stack.pop()
            stack[-1].state.append(state)
        elif name == "STOP":
            return stack.pop()
        else:
            raise PickleError(f"holds the pickle instruction {name}, which no array of numbers needs")
    raise ValueError("it ends without a STOP")


def _made(called: Any, arguments: tuple[Any, ...]) -> Any:
    """What a call would make, uncalled; bytes that were written as text (``_codecs.encode``) are themselves again."""
    as_text = isinstance(called, Named) and (called.module, called.name) == ("_codecs", "encode")
    if as_text and len(arguments) == 2 and isinstance(arguments[0], str) and arguments[1] == "latin1":
        data = arguments[0].encode("latin1")
        return data if len(data) < _LONG else TextBytes(len(data))
    return PickledObject(called, arguments)


def by_text(value: Any, path: Path) -> dict[str, Any]:
    """A pickled dict with its keys as text (Python 2 wrote bytes)."""
    if not isinstance(value, dict):
        raise UserError(f"{path} holds no dictionary; CIFAR's batches are dictionaries.")
    return {text(key): entry for key, entry in value.items() if isinstance(key, Hashable)}


def text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def byte_array(value: Any, path: Path) -> Bytes2D:
    """The place of a pickled NumPy array uint8 [rows, columns]; UserError for any other array."""
    shape, kind, fortran, data = _array_parts(value)
    if isinstance(data, TextBytes):
        raise UserError(
            f"{path} was pickled again by Python 3 with protocol 2 or below, which stores {data.length:,} bytes of "
            f"images as text that cannot be read in place",
            "pickle it with protocol 3 or above, or take the archive as it was published",
        )
    flat = isinstance(data, Bytes) and isinstance(shape, tuple) and len(shape) == 2
    if not flat or kind not in ("u1", "|u1") or fortran:
        raise UserError(
            f"{path} does not hold its images as one NumPy array of bytes in row order (found shape {shape}, type "
            f"{kind}); take the archive as it was published."
        )
    if data.length != shape[0] * shape[1]:
        raise UserError(
            f"{path} has {data.length:,} bytes of images where {shape[0]:,} × {shape[1]:,} are needed; download it "
            f"again."
        )
    return Bytes2D(data.offset, shape[0], shape[1])


def _array_parts(value: Any) -> tuple[Any, str, bool, Any]:
    """(shape, type, Fortran order, data) of a pickled array in either of NumPy's two forms."""
    if not isinstance(value, PickledObject):
        return None, type(value).__name__, False, None
    if value.called.name == "_reconstruct" and value.state and len(value.state[-1]) == 5:
        _, shape, kind, fortran, data = value.state[-1]
        return shape, _kind(kind), bool(fortran), data
    if value.called.name == "_frombuffer" and len(value.arguments) == 4:
        data, kind, shape, order = value.arguments
        return shape, _kind(kind), order != "C", data
    return None, value.called.name, False, None


def _kind(value: Any) -> str:
    made = isinstance(value, PickledObject) and value.called.name == "dtype" and value.arguments
    return text(value.arguments[0]) if made else str(value)
