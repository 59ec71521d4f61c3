"""Plant small faults and see whether the tests notice: `python tools/mutants.py 60 --seed 0`.

A mutant is one changed operator, constant or word (`min` for `max`, `all` for `any`) in a copy of the source. The test
files nearest to it run against the copy until the first failure; a mutant that survives is printed with its line, and
deserves a test (or is the same program: say why). By hand: `--list FILE` with lines `reports/ways.py | old | new`, or
`--at reports/ways.py:40` for every fault of a line.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import importlib.util
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/longshot"
TARGETS = (
    "statistics",
    "tasks/selection",
    "arena/ranking.py",
    "evaluation",
    "reports",
    "studies",
)
# Source → the tests that are near where no test file is called like it.
NEAREST = {
    "arena/ranking.py": ["arena/test_ranking.py"],
    "evaluation/compute.py": ["evaluation/test_runner.py", "evaluation/test_adapted.py"],
    "evaluation/dispatch.py": ["evaluation/test_adapted.py"],
    "evaluation/metrics": ["evaluation/test_metrics.py"],
    "evaluation/plan.py": ["evaluation/test_runner.py"],
    "evaluation/results.py": ["evaluation/test_views.py", "evaluation/test_results.py"],
    "evaluation/run_record.py": ["evaluation/test_damaged_runs.py"],
    "evaluation/run_stores.py": ["evaluation/test_results.py"],
    "evaluation/verdicts.py": ["evaluation/test_compare.py"],
    "evaluation/views.py": ["evaluation/test_views.py", "evaluation/test_results.py"],
    "reports/charts.py": ["reports/test_drawn_numbers.py", "reports/test_plots.py"],
    "reports/costs.py": ["reports/test_drawn_numbers.py", "reports/test_costs.py"],
    "reports/data_pages.py": ["reports/test_frame.py", "reports/test_testbed_page.py"],
    "reports/learning_curves.py": ["reports/test_drawn_numbers.py", "reports/test_learning_curves.py"],
    "reports/page.py": ["reports/test_overlap_section.py", "reports/test_frame.py", "reports/test_page.py"],
    "reports/published": ["reports/test_published.py"],
    "reports/report.py": ["reports/test_page.py", "reports/test_quartiles.py"],
    "reports/sections/coarsity_quartiles.py": ["reports/test_section_limits.py", "reports/test_quartiles.py"],
    "reports/sections": [
        "reports/test_section_numbers.py",
        "reports/test_section_limits.py",
        "reports/test_sections.py",
    ],
    "reports/svg.py": ["reports/test_plots.py"],
    "reports/testbed_plots.py": ["reports/test_drawn_numbers.py", "reports/test_split_plots.py"],
    "statistics/ranks.py": ["statistics/test_paired.py"],
    "tasks/selection/feature_table.py": [
        "tasks/selection/test_objectives.py",
        "tasks/selection/test_masks.py",
        "tasks/selection/test_fastdiffsel.py",
    ],
    "tasks/selection/further_objectives.py": [
        "tasks/selection/test_objectives.py",
        "tasks/selection/test_greedy.py",
    ],
    "tasks/selection/objectives.py": ["tasks/selection/test_objectives.py"],
    "tasks/selection/__init__.py": ["tasks/selection/test_fastdiffsel.py", "tasks/selection/test_masks.py"],
}
# What starts processes or browsers or runs whole studies notices late, and is not near: fixtures, and files by word.
FAR_FIXTURES = frozenset({"run_cli", "browser", "forks"})
FAR = re.compile(r"\brun_study\b")
PRELOADED = (
    "numpy",
    "scipy.stats",
    "pyarrow.compute",
    "pyarrow.parquet",
    "torch",
    "pydantic",
    "PIL.Image",
    "pytest",
)
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
_PAIRS = (("min", "max"), ("all", "any"), ("argmin", "argmax"), ("minimum", "maximum"), ("floor", "ceil"))
WORDS = {word: other for pair in _PAIRS for word, other in (pair, pair[::-1])}


class Mutant(NamedTuple):
    """A fault: the file, its line, what changed, and the whole changed text."""

    file: Path
    line: int
    change: str
    text: str

    @property
    def name(self) -> str:
        """Where it is and what it is."""
        return f"{self.file.relative_to(ROOT)}:{self.line}: {self.change}"


def sites(tree: ast.Module) -> list[int]:
    """Positions (in the order of ``ast.walk``) of the nodes in which a small fault can be planted."""
    copied = copy.deepcopy(tree)
    return [position for position, node in enumerate(list(ast.walk(copied))) if _change(node)]


def plant(file: Path, tree: ast.Module, position: int) -> Mutant:
    """The file with the fault at ``position``."""
    changed = copy.deepcopy(tree)
    node = next(node for number, node in enumerate(ast.walk(changed)) if number == position)
    assert isinstance(node, ast.expr)
    before = ast.unparse(node)
    _change(node)
    return Mutant(file, node.lineno, f"{before} → {ast.unparse(node)}", ast.unparse(changed))


def _change(node: ast.AST) -> bool:
    """Change the node in place where it is of a kind that can be changed."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif (
        isinstance(node, ast.BinOp)
        and type(node.op) in OPERATORS
        and not isinstance(node.left, ast.Constant | ast.JoinedStr)
    ):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node.op = ast.UAdd()
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        node.value = node.value + 1 if isinstance(node.value, int) else node.value * 1.5 + 0.01
    elif isinstance(node, ast.Name) and node.id in WORDS:
        node.id = WORDS[node.id]
    elif isinstance(node, ast.Attribute) and node.attr in WORDS:
        node.attr = WORDS[node.attr]
    else:
        return False
    return True


def choose(count: int, seed: int, targets: list[str]) -> list[Mutant]:
    """``count`` mutants spread evenly over the targets, no fault twice."""
    generator = random.Random(seed)
    chosen: dict[str, Mutant] = {}
    while len(chosen) < count:
        path = SOURCE / targets[len(chosen) % len(targets)]
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        file = generator.choices(files, weights=[file.stat().st_size for file in files])[0]
        tree = ast.parse(file.read_text(encoding="utf-8"))
        if possible := sites(tree):
            mutant = plant(file, tree, generator.choice(possible))
            chosen[mutant.name] = mutant
    return list(chosen.values())


def at_line(file_and_line: str) -> list[Mutant]:
    """Every mutant of a line: ``reports/ways.py:40``."""
    name, _, line = file_and_line.rpartition(":")
    file = SOURCE / name
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [mutant for position in sites(tree) if (mutant := plant(file, tree, position)).line == int(line)]


def read_list(path: Path) -> Iterator[Mutant]:
    """The faults of a file with lines ``reports/ways.py | old | new``; old stands once in its file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, old, new = (part.strip() for part in line.split(" | "))
        file = SOURCE / name
        text = file.read_text(encoding="utf-8")
        if text.count(old) != 1:
            sys.exit(f"{name} has '{old}' {text.count(old)} times, but it must have it once.")
        number = text[: text.index(old)].count("\n") + 1
        yield Mutant(file, number, f"{old} → {new}", text.replace(old, new))


def nearest(file: Path) -> list[str]:
    """The test files that ought to notice a fault in a source file: those called like it, else those that import it."""
    name = file.relative_to(SOURCE).as_posix()
    keys = [key for key in NEAREST if name == key or name.startswith(f"{key}/")]
    if keys:
        return [f"tests/{test}" for test in NEAREST[max(keys, key=len)]]
    folder = ROOT / "tests" / Path(name).parent
    module = ".".join(("longshot", *Path(name).with_suffix("").parts))
    parent, _, stem = module.rpartition(".")
    called = folder / f"test_{stem}.py"
    if called.exists():
        return [str(called.relative_to(ROOT))]
    imports = re.compile(rf"{re.escape(module)}\b|from {re.escape(parent)} import (\([^)]*|.*)\b{stem}\b")
    texts = {test: test.read_text(encoding="utf-8") for test in sorted(folder.glob("test_*.py"))}
    near = [test for test, text in texts.items() if not FAR.search(text)]
    importing = [test for test in near if imports.search(texts[test])]
    return [str(test.relative_to(ROOT)) for test in importing or near or [folder]]


class NearTests:
    """A plugin that leaves out the tests with far fixtures."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the near ones."""
        items[:] = [item for item in items if not FAR_FIXTURES & set(getattr(item, "fixturenames", ()))]


class Bench:
    """Runs tests against a copy of the source, in forks of a process that has the large packages imported."""

    def __init__(self, folder: Path, seconds: int) -> None:
        self.source, self.log, self.seconds = folder / "src", folder / "log", seconds
        shutil.copytree(ROOT / "src", self.source)
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(folder / "bytecode")

    def survives(self, mutant: Mutant) -> bool:
        """Whether the nearest tests pass with the mutant in place of its file."""
        file = self.source / mutant.file.relative_to(ROOT / "src")
        original = file.read_text(encoding="utf-8")
        try:
            self._write(file, mutant.text)
            return self.passes(nearest(mutant.file))
        finally:
            self._write(file, original)

    def _write(self, file: Path, text: str) -> None:
        file.write_text(text, encoding="utf-8")
        # Bytecode is told from that of another text by its second and its size, which two mutants may share.
        Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)

    def passes(self, tests: Iterable[str]) -> bool:
        """Whether the tests pass; what hangs fails, as anybody would notice."""
        process = os.fork()
        if process == 0:
            os._exit(self._run(list(tests)))
        end = time.monotonic() + 10 * self.seconds
        while time.monotonic() < end:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status) == 0
            time.sleep(0.02)
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        return False

    def _run(self, tests: list[str]) -> int:
        import pytest

        os.setpgid(0, 0)
        output = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.chdir(ROOT)
        os.environ["PYTHONPATH"] = str(self.source)
        sys.path.insert(0, str(self.source))
        options = ["-n", "0", "-x", "-q", "--timeout", str(self.seconds)]
        code = int(pytest.main([*options, *tests], plugins=[NearTests()]))
        return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, nargs="?", default=0, help="so many mutants at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--target", action="append", help="a room, folder or file of src/longshot (repeatable)"
    )
    parser.add_argument("--at", action="append", default=[], help="every mutant of FILE:LINE (repeatable)")
    parser.add_argument("--list", action="append", default=[], type=Path, help="mutants by hand, from a file")
    parser.add_argument("--seconds", type=int, default=120, help="limit of a single test")
    parser.add_argument(
        "--unchecked", action="store_true", help="do not run the tests without a mutant first"
    )
    parser.add_argument("--show", action="store_true", help="only tell the mutants and their tests")
    options = parser.parse_args()
    mutants = choose(options.count, options.seed, options.target or list(TARGETS))
    mutants += [mutant for line in options.at for mutant in at_line(line)]
    mutants += [mutant for path in options.list for mutant in read_list(path)]
    if options.show:
        for mutant in mutants:
            print(mutant.name, *nearest(mutant.file))
        return 0
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    for package in PRELOADED:
        importlib.import_module(package)
    alive = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.seconds)
        tests = {test for mutant in mutants for test in nearest(mutant.file)}
        if not options.unchecked and not bench.passes(sorted(tests)):
            sys.exit(f"The tests fail without a mutant:\n{bench.log.read_text(encoding='utf-8')[-2000:]}")
        for mutant in mutants:
            survived = bench.survives(mutant)
            alive += survived
            print(f"{'SURVIVED' if survived else 'killed  '} {mutant.name}", flush=True)
    print(f"{len(mutants) - alive} of {len(mutants)} mutants killed")
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
