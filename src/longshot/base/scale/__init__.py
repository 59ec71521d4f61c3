"""Where work runs: threads of this process, or the workers of a Ray cluster. Rooms cut work into units and do not know.

``with_executor`` lets the parameter ``on`` of a verb hold for all that it does, ``executor()`` is what computes now,
``Crew`` says what every worker holds, ``UnitsFailed`` what could not be computed anywhere.
"""

from longshot.base.scale.choice import (
    close_executors,
    current_choice,
    executor,
    parse_on,
    release_executors,
    using_executor,
    with_executor,
)
from longshot.base.scale.executor import Crew, Executor, FailureList, Stopped, Threads, Tick, UnitsFailed

__all__ = [
    "Crew",
    "Executor",
    "FailureList",
    "Stopped",
    "Threads",
    "Tick",
    "UnitsFailed",
    "close_executors",
    "current_choice",
    "executor",
    "parse_on",
    "release_executors",
    "using_executor",
    "with_executor",
]
