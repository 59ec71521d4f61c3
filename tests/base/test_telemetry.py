"""Nothing is told to the makers of libraries: files and look-ups of commands in an empty home, without CI."""

from __future__ import annotations

import getpass
import json
import os
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from few_toys import FewToys
from remote_servers import KEYS, s3_server, web_server
from tracing import COMMAND, Trace, Traced

pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra efficientnet")
# What a user may do who wants the telemetry; here it is the old behaviour, by which the tracer shows that it sees.
ON = {"ORT_DISABLE_TELEMETRY": "0"}
ROOT = Path(__file__).parents[2]
SHAPE = ("--tasks", "4", "--way", "3", "--shot", "1", "--query", "2")


def strange(trace: Trace, *folders: Path) -> list[str]:
    """Look-ups, connections and files outside Longshot's cache and ``folders``."""
    cache = Path(os.environ["LONGSHOT_CACHE"])
    linked = [path for path in cache.glob("*") if path.is_symlink()]  # to folders that tests share
    return trace.abroad() + trace.outside(cache, *linked, *folders)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., list[str]]]:
    """``command("embed", …)``: what a command did that it should not, in a home of its own."""
    homes = iter(range(100))

    def run(*words: str | Path, allowed: tuple[str, ...] = (), **variables: str) -> list[str]:
        running = Traced(Path(top, f"user{next(homes)}"), tmp_path, "-c", COMMAND, *words, **variables)
        return strange(running.finish(), tmp_path / "out", *(running.home / name for name in allowed))

    with tempfile.TemporaryDirectory() as top:  # Ray's sockets need a short path
        yield run


def _tells(library: str) -> bool:
    """Whether a library tells somebody by itself: ONNX Runtime does from 1.29 on."""
    numbers = tuple(map(int, metadata.version(library).split(".")[:2]))
    return library != "onnxruntime" or numbers >= (1, 29)


def test_the_street_leaves_nothing_and_calls_nobody(
    command: Callable[..., list[str]], own_toys: Callable[[FewToys], None], photos: Path
) -> None:
    own_toys(FewToys(20, "test"))
    embed = ("embed", photos / "round", "--backbone", "efficientnet-lite0")
    evaluate = ("evaluate", "out/tasks.parquet", "--backbone", "efficientnet-lite0", "--method", "protonet")
    for words in (
        ("demo", "--tasks", "2", "-o", "out/demo"),
        embed,
        ("sample", photos / "round", *SHAPE, "-o", "out/tasks.parquet"),
        (*evaluate, "-o", "out/run"),
        ("report", "out/run", "-o", "out/report.html"),
    ):
        assert command(*words) == [], words
    traces = {".onnxruntime", "deviceid", "onnxruntime.db", ".ses"} if _tells("onnxruntime") else set()
    assert {Path(path).name for path in command(*embed, **ON)} >= traces


@pytest.mark.parametrize("library", ["onnxruntime", "openvino"])
def test_importing_a_library_after_longshot_tells_nobody(tmp_path: Path, library: str) -> None:
    pytest.importorskip(library)
    alone = Traced(tmp_path / "alone", tmp_path, "-c", f"import {library}")
    after = Traced(tmp_path / "after", tmp_path, "-c", f"import longshot, {library}")
    assert bool(strange(alone.finish())) == _tells(library)
    assert strange(after.finish()) == []


@pytest.mark.long
def test_a_collector_is_looked_up_without_the_switch_only(tmp_path: Path) -> None:
    """ONNX Runtime waits some seconds: whoever has it switched off lives as long as who has not."""
    program = "import longshot, onnxruntime; input()"
    loud = Traced(tmp_path / "loud", tmp_path, "-c", program, **ON)
    quiet = Traced(tmp_path / "quiet", tmp_path, "-c", program)
    deadline = time.monotonic() + 120
    while not loud.so_far().abroad() and time.monotonic() < deadline:
        time.sleep(0.5)
    for running in (loud, quiet):
        running.process.communicate("\n")
    assert any(address.endswith(":53") for address in loud.so_far().abroad())
    assert strange(quiet.so_far()) == []


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of transformers, saved in a folder."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.ViTConfig(**sizes, image_size=32, patch_size=8)
    folder = tmp_path_factory.mktemp("vit")
    transformers.ViTModel(config).save_pretrained(folder)
    return folder


# What libraries may leave in a user's folders: PyTorch's compiled code and Ray's sessions in the folder for temporary
# files, and the secret of the user's Ray clusters, which must not lie in a cache that others may share.
COMPILED = "tmp/torchinductor_" + getpass.getuser()
RAY = (".ray", "tmp/ray")


@pytest.mark.long
@pytest.mark.parametrize("extra", ["openvino", "hf", "tune", "ray", "doctor"])
def test_no_extra_leaves_anything_or_calls_anybody(
    command: Callable[..., list[str]], fresh_cache: Path, photos: Path, vit: Path, extra: str
) -> None:
    """One command for each extra that computes; ``doctor`` imports every extra that there is."""
    bed = "out/tasks.parquet"
    assert command("sample", photos / "round", *SHAPE, "-o", bed) == []
    small = "decode|resize(32,32)|normalize(0.5,0.5)"
    search = ("--search", "lr=log(1e-4, 1e-1)", "--trials", "2")
    evaluate = ("evaluate", bed, "--backbone", "efficientnet-lite0", "--method", "protonet")
    words: dict[str, tuple[str | Path, ...]] = {
        "openvino": ("embed", photos / "round", "--backbone", "efficientnet-lite0", "--engine", "openvino"),
        "hf": ("embed", photos / "round", "--backbone", f"hf:{vit}", "--preprocessing", small),
        "tune": ("tune", "tim", bed, "--backbone", "pixels", *search, "-o", "out/search"),
        "ray": (*evaluate, "--on", "ray", "-o", "out/ray"),
        "doctor": ("doctor",),
    }
    # Under a tracer a busy machine is slow: Ray gives up a node whose agent or whose answer is late.
    waits = {"gcs_rpc_server_reconnect_timeout_s": 900, "agent_register_timeout_ms": 900_000}
    waits |= {"health_check_timeout_ms": 900_000, "health_check_failure_threshold": 1000}
    patient = {f"RAY_{name}": str(value) for name, value in waits.items()}
    assert command(*words[extra], allowed=(COMPILED, *(RAY if extra == "ray" else ())), **patient) == []


@pytest.mark.long
def test_timm_calls_nobody(tmp_path: Path, fresh_cache: Path) -> None:
    """The checks of ``timm:``, whose files are temporary."""
    peers = Path(sys.prefix) / "peers"
    if not (peers / "timm").is_dir():
        pytest.skip("needs timm in .venv/peers (tools/setup.sh)")
    paths = [ROOT / "tests", ROOT / "src", peers]
    program = ROOT / "tests" / "models" / "features" / "real_timm.py"
    running = Traced(tmp_path / "user", tmp_path, program, PYTHONPATH=os.pathsep.join(map(str, paths)))
    assert strange(running.finish(), running.home / "tmp") == []


@pytest.mark.long
def test_urls_reach_their_server_only(
    command: Callable[..., list[str]], fresh_cache: Path, photos: Path
) -> None:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    with web_server(photos) as (address, _):
        assert command("datasets", "show", f"{address}/round/") == []
    with s3_server() as endpoint, pytest.MonkeyPatch.context() as patched:
        variables = {**KEYS, "AWS_ENDPOINT_URL": endpoint}
        for name, value in variables.items():
            patched.setenv(name, value)
        import s3fs

        files = s3fs.S3FileSystem(skip_instance_cache=True)
        files.mkdir("photos")
        files.put(str(photos / "round"), "photos/", recursive=True)
        assert command("datasets", "show", "s3://photos/round/", **variables) == []


@pytest.mark.long
def test_the_hub_is_asked_for_the_dataset_alone(
    command: Callable[..., list[str]], fresh_cache: Path, tmp_path: Path
) -> None:
    pytest.importorskip("huggingface_hub")
    answer = tmp_path / "hub" / "api" / "datasets" / "me" / "toys"
    answer.parent.mkdir(parents=True)
    facts = {"id": "me/toys", "sha": "a" * 40, "siblings": [{"rfilename": "a.parquet", "size": 1}]}
    answer.write_text(json.dumps(facts))
    words = ("datasets", "get", "hub:me/toys", "--dry-run")
    for switch, asked_more in (("1", False), ("0", True)):
        with web_server(tmp_path / "hub") as (address, requests):
            seen = command(*words, HF_ENDPOINT=address, HF_HUB_DISABLE_TELEMETRY=switch)
        assert any("/api/datasets/me/toys" in request for request in requests)
        assert any("/api/agent-harnesses" in request for request in requests) == asked_more
        assert asked_more or seen == []


@pytest.mark.long
def test_the_explorer_calls_nobody(tmp_path: Path, fresh_cache: Path, photos: Path) -> None:
    """It draws in a process of its own, with matplotlib."""
    import longshot

    testbed = longshot.sample(photos, tasks=4, way=3, shot=1, query=2, out=tmp_path / "out" / "tasks.parquet")
    longshot.evaluate(testbed, backbones="pixels", methods="protonet", out=tmp_path / "out" / "run")
    running = Traced(tmp_path / "user", tmp_path, "-u", "-m", "longshot", "serve", "out")
    try:
        assert running.process.stdout is not None
        address = next(
            re.findall(r"http://[\d.]+:\d+", line) for line in running.process.stdout if "http" in line
        )[0]

        def ask(path: str) -> tuple[str, bool]:
            """A page, and whether it asks to be loaded again since its plots are not drawn."""
            with urllib.request.urlopen(f"{address}{path}") as answer:
                return answer.read().decode(), "refresh" in answer.headers

        (run,) = set(re.findall(r'href="(/run/[^"/?]*)"', ask("/?kind=run")[0]))
        while ask(f"{run}/report/results")[1]:
            time.sleep(0.1)
    finally:
        running.interrupt()
    trace = running.so_far()
    assert any(path.startswith(f"{fresh_cache}/matplotlib/") for path in trace.written)
    assert strange(trace, tmp_path / "out") == []
