"""The habits of the project: changelog fragments, the release recipe, hooks, and what public hosts read."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tools import changelog
from tools import release as recipe

from conftest import ROOT

LOG = """# Changelog

## 0.2.0 (unreleased): one house

### Speed
- Fast.

### Fixed
- A fault.

## 0.1.0 (2026-01-01)
- First.
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files that a version stands in, with two fragments."""
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "0.1.0"\n[tool.x]\nversion = "9"\n'
    )
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 0.1.0\ntitle: x\n")
    (tmp_path / "CHANGELOG.md").write_text(LOG)
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (folder / "a.md").write_text("### Speed\n- Faster.\n  And so on.\n")
    (folder / "b.md").write_text("### Pages\n- A page.\n")
    return tmp_path


def test_a_bump_is_one_step(project: Path) -> None:
    recipe.bump(project, "0.2.0", "2026-05-31")
    assert set(recipe.versions(project).values()) == {"0.2.0"}
    assert 'version = "9"' in (project / "pyproject.toml").read_text()
    assert "version: 0.2.0\ndate-released: 2026-05-31\n" in (project / "CITATION.cff").read_text()
    text = (project / "CHANGELOG.md").read_text()
    assert text == LOG.replace("(unreleased)", "(2026-05-31)").replace(
        "- Fast.", "- Fast.\n- Faster.\n  And so on."
    ).replace("- A fault.", "- A fault.\n\n### Pages\n- A page.")
    assert not list((project / "changelog.d").iterdir())
    assert recipe.check_version(project).startswith("0.2.0 in")
    assert recipe.check_changelog(project, cut=True) == "section 0.2.0"
    recipe.bump(project, "0.2.1", "2026-06-30")  # a version without a section begins one
    assert "## 0.2.1 (2026-06-30)\n" in (project / "CHANGELOG.md").read_text()
    assert (project / "CITATION.cff").read_text().count("date-released") == 1


def test_what_stands_in_the_way_is_named(project: Path) -> None:
    with pytest.raises(recipe.Refused, match="'two' is no version"):
        recipe.bump(project, "two", "2026-05-31")
    (project / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    with pytest.raises(recipe.Refused, match=r"pyproject.toml says 0\.2\.0; CITATION.cff says 0\.1\.0"):
        recipe.check_version(project)
    assert "before it is cut: 2 fragments" in recipe.check_changelog(project, cut=False)
    with pytest.raises(recipe.Refused, match=r"2 fragments are not folded in and .* says '\(unreleased\)'"):
        recipe.check_changelog(project, cut=True)
    (project / "changelog.d" / "c.md").write_text("- no theme\n")
    with pytest.raises(recipe.Refused, match=r"c\.md must begin with '### Theme'"):
        recipe.check_changelog(project, cut=False)


def test_the_fragments_of_this_checkout_fit(capsys: pytest.CaptureFixture[str]) -> None:
    new = changelog.fragments(changelog.FOLDER)
    text = changelog.FILE.read_text("utf-8")
    version = changelog.latest(text)
    start, end = changelog.section(changelog.folded(text, version, new), version)
    for theme, body in new.values():
        assert f"### {theme}\n" in changelog.folded(text, version, new)[start:end] and body
    assert recipe.check_version(ROOT)


def test_hooks_run_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real pre-commit, in a repository of its own: a misspelled word is found, a good one passes."""
    program = Path(sys.executable).with_name("pre-commit")
    if not program.is_file():
        pytest.skip("needs pre-commit")
    for name in (".pre-commit-config.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    (tmp_path / ".gitignore").write_text(".venv\n")
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "home"))

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*map(str, words)], cwd=tmp_path, capture_output=True, text=True)

    run("git", "init", "-q")
    wrong = "adress"  # codespell:ignore
    (tmp_path / "page.md").write_text(f"The {wrong} is here.\n")
    run("git", "add", "-A")
    refused = run(program, "run", "spelling", "--all-files")
    assert refused.returncode == 1 and f"{wrong} ==> address" in refused.stdout
    (tmp_path / "page.md").write_text("The address is right.\n")
    run("git", "add", "-A")
    assert run(program, "run", "spelling", "--all-files").returncode == 0
    (tmp_path / "code.py").write_text("import os\n")
    run("git", "add", "-A")
    assert "`os` imported but unused" in run(program, "run", "ruff-check", "--all-files").stdout
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"]
    for hook in hooks[0]["hooks"]:
        assert Path(sys.executable).with_name(Path(hook["entry"].split()[0]).name).is_file(), hook["id"]


def test_ci_runs_what_make_has_on_every_system_and_python() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    assert matrix == {"os": ["ubuntu-latest", "macos-latest"], "python": ["3.11", "3.12", "3.13"]}
    makefile = (ROOT / "Makefile").read_text("utf-8")
    called = {
        word
        for job in jobs.values()
        for step in job["steps"]
        for word in re.findall(r"\bmake ([\w./-]+)", step.get("run", ""))
    }
    assert called >= {"lint", "test", "demo", "release-check"}
    for target in called - {".venv/.dev"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert "tests/test_readme.py" in text


def test_forms_are_whole() -> None:
    forms = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    assert {path.stem for path in forms} == {"bug", "wish", "config"}
    for path in forms:
        form = yaml.safe_load(path.read_text("utf-8"))
        if path.stem != "config":
            assert form["name"] and form["description"]
            names = [field["id"] for field in form["body"]]
            assert len(set(names)) == len(names)
            assert all(field["attributes"]["label"] for field in form["body"])


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md"])
def test_links_of_the_pages_that_hosts_show_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    links = re.findall(r"\]\(((?!http)[^)#]+)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []
    paths = re.findall(r"`((?:core|web|competition)/[\w./]+\.py)`", text)
    assert [path for path in paths if not (ROOT / "src/longshot" / path).exists()] == []
