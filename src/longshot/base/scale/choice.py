"""Where the verb that is running computes: what ``on`` says, or LONGSHOT_ON, or here."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from typing import ParamSpec, TypeVar

from longshot.base.errors import UserError
from longshot.base.scale.executor import Executor, Threads

VARIABLE = "LONGSHOT_ON"
PORT = 10001  # of Ray's own client server
P = ParamSpec("P")
T = TypeVar("T")
_ADDRESS = re.compile(r"ray://(\[[0-9a-fA-F:]+\]|[^/:\s]+)(?::(\d+))?/?")


@dataclass(frozen=True)
class Choice:
    """What was asked for: ``on`` as it is written out, GPUs of each worker, whether failed units are tried again."""

    on: str = "local"
    gpus_per_worker: float = 0.0
    retry_failed: bool = False


_around: ContextVar[Choice | None] = ContextVar("on", default=None)
_HERE = Threads()
_open: dict[tuple[str, float], Executor] = {}


def parse_on(text: str | None) -> str:
    """``on`` in one spelling; where nothing is said, what LONGSHOT_ON says, or ``local``.

    Examples
    --------
    >>> parse_on("local"), parse_on("ray"), parse_on("ray://head")
    ('local', 'ray', 'ray://head:10001')
    """
    on = (text or os.environ.get(VARIABLE) or "local").strip()
    if on in ("local", "ray"):
        return on
    match = _ADDRESS.fullmatch(on)
    if match is None or not 0 < int(match[2] or PORT) < 65536:
        raise UserError(f"{{on}} is '{on}', but work runs on local, ray or ray://HOST:PORT.")
    return f"ray://{match[1]}:{match[2] or PORT}"


@contextlib.contextmanager
def using_executor(
    on: str | None = None, gpus_per_worker: float | None = None, retry_failed: bool | None = None
) -> Iterator[None]:
    """Let an executor hold for all work inside, unless that is told another; a cluster is joined and checked now."""
    around = _around.get() or Choice()
    choice = replace(around, on=parse_on(on) if on is not None or _around.get() is None else around.on)
    if gpus_per_worker is not None:
        if not gpus_per_worker >= 0:
            raise UserError(f"{{gpus_per_worker}} is {gpus_per_worker:g}, but it must be 0 or more.")
        choice = replace(choice, gpus_per_worker=float(gpus_per_worker))
    if retry_failed is not None:
        choice = replace(choice, retry_failed=retry_failed)
    if choice.gpus_per_worker and choice.on == "local":
        raise UserError("{gpus_per_worker} is for workers on a cluster", "add {on:ray}, or leave it out")
    token = _around.set(choice)
    try:
        executor()
        yield
    finally:
        _around.reset(token)


def with_executor(verb: Callable[P, T]) -> Callable[P, T]:
    """Let the parameters ``on``, ``gpus_per_worker`` and ``retry_failed`` of a verb hold for all that it does."""

    @wraps(verb)
    def call(*arguments: P.args, **settings: P.kwargs) -> T:
        on, gpus, retry = (settings.get(name) for name in ("on", "gpus_per_worker", "retry_failed"))
        if on is not None and not isinstance(on, str):
            raise UserError(f"{{on}} is {on!r}, but work runs on local, ray or ray://HOST:PORT.")
        number = float(gpus) if isinstance(gpus, int | float) else None
        with using_executor(on, number, retry if isinstance(retry, bool) else None):
            return verb(*arguments, **settings)

    return call


def current_choice() -> Choice:
    """What holds now."""
    return _around.get() or Choice(parse_on(None))


def executor() -> Executor:
    """What computes now; a cluster is joined when it is first asked for."""
    choice = current_choice()
    if choice.on == "local":
        return _HERE
    key = choice.on, choice.gpus_per_worker
    if key not in _open:
        from longshot.base.scale.cluster import join_cluster

        release_executors()  # processors that their workers hold would never come free
        _open[key] = join_cluster(choice.on, choice.gpus_per_worker)
    return _open[key]


def release_executors() -> None:
    """Let go of all workers that wait for more to do, on whatever cluster."""
    for opened in _open.values():
        opened.release()


def close_executors() -> None:
    """Leave every cluster that was joined; one that was started for us ends."""
    for opened in _open.values():
        opened.close()
    _open.clear()
