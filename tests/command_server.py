"""Runs the command line in forks of one process that has the heavy imports behind it.

A call is a process of its own, with its own arguments, folder, environment, output and exit code, as a user's is; only
the second or two that importing torch takes is paid once per test worker instead of once per call. Requests are lines
of JSON on standard input.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import traceback
from typing import Any


def serve() -> None:
    """Answer requests until the input ends: each is forked off and waited for."""
    import matplotlib.figure  # noqa: F401  what commands import on use
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401
    import scipy.stats  # noqa: F401
    import torch  # noqa: F401

    import longshot.cli.main
    import longshot.evaluation.runner
    import longshot.reports.report
    import longshot.training.loop  # noqa: F401

    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in requests:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(request)
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


def _run(request: dict[str, Any]) -> None:
    """The command itself; never returns."""
    code = 1
    try:
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        # As under `python -m`, in place of this file's folder; the environment's own paths come next.
        own = [path for path in request["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
        sys.path[:1] = [request["cwd"], *own]
        for place, path in ((1, request["out"]), (2, request["err"])):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, place)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["longshot", *request["arguments"]]
        from longshot.cli.main import main

        main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
