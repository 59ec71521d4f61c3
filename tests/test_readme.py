"""What the README says works, as it is written there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from few_toys import FewToys
from forked import ForkServer

README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.fixture
def desk(tmp_path: Path, photos: Path) -> Path:
    """A folder in which ``./my_photos`` lies."""
    (tmp_path / "my_photos").symlink_to(photos)
    return tmp_path


def commands() -> list[str]:
    """What the README calls, without ``longshot`` and comments."""
    return re.findall(r"^    longshot (.*?)(?:\s+#.*)?$", README.read_text("utf-8"), re.MULTILINE)


def test_the_commands(desk: Path, run_cli: RunCli) -> None:
    own, toybox = commands()[:4], commands()[4:10]
    assert [line.split()[0] for line in own] == ["embed", "sample", "evaluate", "report"]
    assert [line.split()[0] for line in toybox] == ["sample"] * 4 + ["inspect", "explain"]
    for line in (*own, *toybox):
        run_cli(*shlex.split(line), cwd=desk)
    assert (desk / "report.html").stat().st_size > 10_000
    assert (desk / "hard.html").stat().st_size > 10_000


def test_the_commands_that_learn_and_publish(
    desk: Path, run_cli: RunCli, own_toys: Callable[[FewToys], None]
) -> None:
    """On fewer pictures: a network that was trained sees all of them."""
    learning, published = commands()[10:14], commands()[14:]
    assert [line.split()[0] for line in learning] == ["train", "sample", "evaluate", "split"]
    assert [line.split()[0] for line in published] == ["release", "verify"]
    own_toys(FewToys(20))
    # Training as it is written takes a minute or two: here in fewer steps and on fewer tasks.
    short = [re.sub(r"--(steps|tasks) \d+", r"--\1 4", line) for line in learning]
    for line in (*short, *published):
        run_cli(*shlex.split(line), cwd=desk)
    assert (desk / "runs" / "proto" / "network.safetensors").is_file() and (desk / "far.json").is_file()
    assert (desk / "my-toys" / "README.md").is_file()


def test_the_python(desk: Path, forks: ForkServer) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    done = forks.run(program=code, cwd=desk)
    assert re.match(r"efficientnet-lite0 protonet 0\.\d+ ± 0\.\d+", done.stdout)
    assert (desk / "report.html").stat().st_size > 10_000


def test_every_linked_page_exists() -> None:
    text = README.read_text("utf-8")
    links = re.findall(r"\]\(((?!http)[^)#]+)", text) + re.findall(r'src="([^"]+)"', text)
    assert {"docs/explorer-task.png", "docs/report-top.png"} < set(links)
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_it_begins_with_pictures_and_fits_three_screens(browser: Any) -> None:
    """As a public host shows it: a column of 980 pixels in letters of 16, on screens of 1,080."""
    markdown = pytest.importorskip("markdown_it", reason="needs markdown-it-py, which rich brings")
    body = markdown.MarkdownIt("commonmark", {"html": True}).enable("table").render(README.read_text("utf-8"))
    style = "body{font:16px/1.5 sans-serif;width:980px} td,th{padding:6px 13px} pre,code{font-size:85%}"
    base = f'<base href="{README.parent.as_uri()}/">'
    assert body.index("<img") < body.index("<h2>") < body.index("Beside its peers")
    page = browser.new_page(viewport={"width": 1100, "height": 1080})
    page.goto(README.parent.as_uri())  # so that pictures of the folder may be loaded
    page.set_content(f"<head>{base}<style>{style}</style></head><body>{body}</body>")
    pictures = page.evaluate("Array.from(document.images, image => image.naturalWidth)")
    height = page.evaluate("document.body.scrollHeight")
    page.close()
    assert len(pictures) == 2 and min(pictures) > 1000
    assert height <= 3 * 1080
