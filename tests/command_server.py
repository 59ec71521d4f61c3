"""Runs programs in forks of one process that has the heavy imports behind it.

A call is a process of its own, with its own arguments, folder, environment, output and exit code, as a user's is; only
the second or two that importing torch takes is paid once per test worker instead of once per call. Requests are lines
of JSON on standard input; `forked.py` writes them.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import json
import os
import pkgutil
import re
import signal
import sys
import traceback
from typing import Any

import PIL.Image

import few_toys
import longshot  # before the libraries below, whose telemetry it switches off

PR_SET_PDEATHSIG = 1
# What commands, and the libraries under them, import on use.
LIBRARIES = (
    "efficientnet_lite_pytorch",
    "filelock",
    "jinja2",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "onnx",
    "onnxruntime",
    "pandas",  # by pyarrow, to find out whether what it is given comes from there
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "rich.progress",
    "rich.table",
    "rich.tree",
    "safetensors.torch",
    "scipy.cluster.hierarchy",
    "scipy.sparse.csgraph",
    "scipy.stats",
    "torch.onnx._internal.torchscript_exporter.symbolic_opset17",
    "torch._dynamo",  # by every optimiser with its first step, and SymPy with it
    "xml.etree.ElementTree",
)


def serve() -> None:
    """Answer requests until the input ends: a program to start, or one to wait for."""
    for name in (*LIBRARIES, *_own_modules()):
        with contextlib.suppress(ImportError):  # some are extras or need one
            importlib.import_module(name)
    PIL.Image.init()

    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in requests:
        request = json.loads(line)
        answers.write(f"{_wait(request) if 'wait' in request else _start(request)}\n")
        answers.flush()
    os._exit(0)  # taking torch down again would cost a second and tells nobody anything


def _own_modules() -> list[str]:
    """Longshot's modules, but for those that are programs or run inside a submission's box."""
    apart = re.compile(r"\.(baselines|programs|inside|__main__)(\.|$)")
    walked = pkgutil.walk_packages(longshot.__path__, "longshot.", onerror=lambda _: None)
    return [module.name for module in walked if not apart.search(module.name)]


def _start(request: dict[str, Any]) -> int:
    """The number of the new process."""
    child = os.fork()
    if child == 0:
        _run(request)
    return child


def _wait(request: dict[str, Any]) -> str:
    """The exit code, or ``running``."""
    ended, status = os.waitpid(request["wait"], 0 if request["block"] else os.WNOHANG)
    return str(os.waitstatus_to_exitcode(status)) if ended else "running"


def _run(request: dict[str, Any]) -> None:
    """The program itself; never returns."""
    code = 1
    try:
        os.setsid()  # a group of its own; and Ctrl-C works even where the tests were started in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if sys.platform == "linux":  # nothing outlives the tests, however they end
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        # As under `python -m`, in place of this file's folder; the environment's own paths come next.
        own = [path for path in request["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
        sys.path[:1] = [request["cwd"], *own]
        for descriptor, path in ((1, request["out"]), (2, request["err"])):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        few_toys.heed()
        if request["program"] is None:
            _command(request["arguments"])
        else:
            sys.argv = ["-c", *request["arguments"]]
            exec(compile(request["program"], "<program>", "exec"), {"__name__": "__main__"})
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


def _command(arguments: list[str]) -> None:
    """The command line."""
    from longshot.cli import run_command_line

    sys.argv = ["longshot", *arguments]
    run_command_line()


if __name__ == "__main__":
    serve()
