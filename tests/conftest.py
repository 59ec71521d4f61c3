"""What the tests share: one cache per session, the real command line, real photos, the reference data."""

from __future__ import annotations

import os

# One thread per process before torch or BLAS is loaded: the tests themselves run in parallel. `make test-elsewhere`
# asks for more, as a user's machine would.
for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = os.environ.get("LONGSHOT_TEST_THREADS", "1")

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from few_toys import FewToys
from forked import ForkServer

ROOT = Path(__file__).resolve().parents[1]
RunCli = Callable[..., "subprocess.CompletedProcess[str]"]
SHARED_CACHES = ("toybox", "copies")  # by content alone, whoever made it


def pytest_configure(config: pytest.Config) -> None:
    """The controlling process makes one cache that all workers inherit: toybox is generated once."""
    if not hasattr(config, "workerinput"):
        from longshot.base import cache_dir

        session = tempfile.mkdtemp(prefix="longshot-tests-")
        for folder in SHARED_CACHES:  # the user's own: what is drawn or searched already is not made again
            Path(session, folder).symlink_to(cache_dir(folder))
        config.longshot_cache = session  # type: ignore[attr-defined]
        os.environ["LONGSHOT_CACHE"] = session


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "longshot_cache"):
        shutil.rmtree(config.longshot_cache, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many blocks of the documentation were run, and why the others were not; and pages with long sentences."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    if any(getattr(report, "nodeid", "").startswith("tests/docs/") for report in reports):
        from tools.check_docs import sentences
        from tools.doc_blocks import summary

        terminalreporter.section("documentation")
        terminalreporter.write_line("\n".join([*summary(), *sentences()]))


@pytest.fixture
def cache() -> Path:
    """The session's cache, shared by all tests: good for what is expensive and content-addressed."""
    return Path(os.environ["LONGSHOT_CACHE"])


@pytest.fixture
def fresh_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test, seen by this process and by the commands it runs; copies are not searched anew."""
    path = tmp_path_factory.mktemp("cache")  # beside tmp_path, which tests open as a dataset
    (path / "copies").symlink_to(Path(os.environ["LONGSHOT_CACHE"], "copies").resolve())
    monkeypatch.setenv("LONGSHOT_CACHE", str(path))
    return path


@pytest.fixture
def own_toys(cache: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[FewToys], None]:
    """``own_toys(FewToys(20))``: commands find a smaller toybox, in a cache of the test's own.

    Networks that were converted for other tests are there, too.
    """

    def use(part: FewToys) -> None:
        (cache / "converted").mkdir(exist_ok=True)
        for shared_folder in ("toybox", "converted"):
            (fresh_cache / shared_folder).symlink_to(cache / shared_folder)
        for variable, value in part.tell().items():
            monkeypatch.setenv(variable, value)

    return use


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """Starts commands and programs in processes of their own, without paying for the import of torch each time."""
    server = ForkServer(tmp_path_factory.mktemp("output"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def run_cli(forks: ForkServer) -> RunCli:
    """Run the real command; with ``check`` (the default) a failure shows what it printed."""
    return forks.run


@pytest.fixture(scope="session")
def shared() -> Path:
    """Reference data that lies beside the checkout in CI; elsewhere the test skips."""
    path = ROOT.parent / "shared"
    if not path.is_dir():
        pytest.skip("needs the project's reference data folder 'shared' beside the checkout")
    return path


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of class folders: 8 classes in two super-classes, 30 JPEGs each, of different sizes."""
    root = tmp_path_factory.mktemp("photos")
    colours = ["crimson", "orange", "gold", "olive", "teal", "navy", "purple", "sienna"]
    rng = np.random.default_rng(7)
    for label, colour in enumerate(colours):
        shape = "round" if label < 4 else "square"
        folder = root / shape / colour
        folder.mkdir(parents=True)
        for number in range(30):
            width, height = (int(side) for side in rng.integers(40, 90, size=2))
            noise = rng.integers(90, 166, size=(height, width, 3), dtype=np.uint8)
            image = Image.fromarray(noise)
            x, y = (int(corner) for corner in rng.integers(2, 12, size=2))
            box = (x, y, x + 24, y + 24)
            draw = ImageDraw.Draw(image)
            # of dark squares the search for near copies would see little else, and take them for copies
            fill = "royalblue" if colour == "navy" else colour
            (draw.ellipse if shape == "round" else draw.rectangle)(box, fill=fill)
            image.save(folder / f"{number:03d}.jpg", quality=90)
    return root


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The machine's Chromium; where it or its driver is missing the test skips."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs a Chromium on the machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


@pytest.fixture
def save_image() -> Callable[..., None]:
    """Write a small image of one colour."""
    return _save_image


def _save_image(path: Path, colour: tuple[int, int, int] = (200, 30, 60)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 5), colour).save(path)


@pytest.fixture
def tree(tmp_path: Path, fresh_cache: Path) -> Callable[[Mapping[str, int]], Path]:
    """Make a folder of class folders: {class id: number of images} -> its root."""

    def make(classes: Mapping[str, int]) -> Path:
        root = tmp_path / "pictures"
        for label, (class_id, number) in enumerate(classes.items()):
            (root / class_id).mkdir(parents=True, exist_ok=True)
            for i in range(number):  # no two alike: copies are kept apart
                _save_image(root / class_id / f"{i:03d}.png", (i % 256, i // 256, label))
        return root

    return make


class GreyStore:
    """A picture whose grey value tells its row; samplers look at none, and nobody looks for copies."""

    without_copies = True

    def read(self, row: int) -> Image.Image:
        return Image.new("RGB", (40, 30), (row % 256,) * 3)


@pytest.fixture(scope="session")
def make_dataset() -> Callable[..., Any]:
    """``make_dataset({"a/x": 20, "a/y": 30})``: classes and their sizes; ids with slashes give the taxonomy."""
    import pyarrow as pa

    from longshot.base import offsets_of
    from longshot.data import Dataset, Taxonomy

    def make(
        sizes: Mapping[str, int] | Sequence[int],
        *,
        name: str = "small",
        splits: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Dataset:
        if not isinstance(sizes, Mapping):
            sizes = {f"class{number:03d}": size for number, size in enumerate(sizes)}
        ids = tuple(sorted(sizes))
        nested = any("/" in class_id for class_id in ids)
        return Dataset(
            name=name,
            class_ids=ids,
            offsets=offsets_of(np.array([sizes[class_id] for class_id in ids])),
            keys=pa.array(
                [f"{class_id}/{number:04d}.jpg" for class_id in ids for number in range(sizes[class_id])]
            ),
            store=GreyStore(),
            source="nowhere",
            taxonomy=Taxonomy.from_class_ids(ids) if nested else None,
            splits=splits or {},
        )

    return make
