"""What small commands import: seconds of waiting are modules, and modules can be counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import longshot

# A process of its own, for importing is the point; pandas and torch are installed beside the tests.
COMMAND = """
import json, runpy, sys
sys.argv = ["longshot", *sys.argv[1:]]
try:
    runpy.run_module("longshot", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
print("\\n" + json.dumps(sorted(sys.modules)))
"""
ALWAYS = {
    "torch",
    "pandas",
    "pyarrow.dataset",
    "scipy.stats",
    "scipy.sparse",
    "onnxruntime",
    "openvino",
    "transformers",
    "IPython",
}


def modules(*words: str | Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, words)], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Path:
    """A testbed of the photos and a run with two methods."""
    folder = tmp_path_factory.mktemp("imports")
    shape = {"way": 3, "shot": 1, "query": 2}
    testbed = longshot.sample(photos, tasks=6, **shape, out=folder / "tasks.parquet")
    longshot.evaluate(testbed, backbones="pixels", methods=["protonet", "simpleshot"], out=folder / "run")
    return folder


@pytest.mark.parametrize(
    ("words", "never"),
    [
        (["inspect", "tasks.parquet"], {"matplotlib", "yaml", "rich", "jinja2", "longshot.tasks.sampling"}),
        (["datasets", "show", "PHOTOS"], {"matplotlib", "yaml", "longshot.data.formats.coco"}),
        (
            ["sample", "PHOTOS", "--tasks", "5", "--way", "3", "--query", "2", "-o", "again.parquet"],
            {"matplotlib", "yaml", "longshot.data.formats.tfrecord", "longshot.data.get"},
        ),
        (["report", "run", "-o", "report.html"], {"matplotlib.pyplot", "yaml", "PIL.TiffImagePlugin"}),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_a_small_command_imports_no_heavy_library(
    work: Path, photos: Path, words: list[str], never: set[str]
) -> None:
    places = {
        "PHOTOS": photos,
        **{name: work / name for name in ("tasks.parquet", "again.parquet", "run", "report.html")},
    }
    imported = modules(*(places.get(word, word) for word in words))
    assert "longshot.cli.main" in imported
    assert imported & (ALWAYS | never) == set()


def test_pyarrow_still_knows_pandas_when_somebody_uses_it() -> None:
    code = """
import sys
from longshot.cli.main import _prepare_libraries
_prepare_libraries()
import pyarrow as pa
pa.array([1])
assert "pandas" not in sys.modules
import pandas as pd
frame = pd.DataFrame({"a": [1.0, float("nan")], "b": pd.Categorical(["x", "y"])})
assert pa.Table.from_pandas(frame).to_pandas().equals(frame)
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def own_modules(imported: set[str]) -> set[str]:
    """Longshot's modules, packages included."""
    return {name for name in imported if name.partition(".")[0] == "longshot"}


def test_sampling_difficult_tasks_runs_few_modules(work: Path, photos: Path) -> None:
    """A module more is read by whoever follows this path: raise the number for what sampling needs, and say why."""
    shape = ["--tasks", "4", "--way", "3", "--shot", "1", "--query", "2"]
    chosen = ["--instances", "difficult", "--judge", "pixels"]
    imported = modules("sample", photos, *shape, *chosen, "-o", work / "hard.parquet")
    unused = {
        *(
            "longshot.base.remote",
            "longshot.base.cluster",
            "longshot.data.taxonomy.readers",
        ),
        *(
            "longshot.models.networks.checkpoint",
            "longshot.models.features.conversion",
        ),
        *("longshot.tasks.splits", "longshot.tasks.selection.further_objectives", "longshot.training"),
    }
    assert imported & unused == set()
    # 110: judges are measured as held-out networks are, by the methods of evaluation; one table has one classifier.
    assert len(own_modules(imported)) <= 110


def test_importing_longshot_and_its_help_load_little() -> None:
    code = "import json, sys, longshot; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert own_modules(set(json.loads(done.stdout))) == {"longshot", "longshot.base", "longshot.base.startup"}
    helped = own_modules(modules("--help"))
    assert helped & {"longshot.data", "longshot.models", "longshot.tasks", "longshot.api"} == set()
    assert len(helped) <= 16
