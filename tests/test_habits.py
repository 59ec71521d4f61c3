"""The habits of the project: changelog fragments, the release recipe, hooks, and what public hosts read."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from tools import lowest
from tools import release as recipe

from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = {path.stem: path.read_text("utf-8") for path in (ROOT / ".github/workflows").glob("*.yml")}

LOG = """# Changelog

<!-- versions, newest first -->

## 0.1.0 (2026-01-01)

- First.
"""
SECTION = """
## 0.2.0 (2026-05-31)

Tasks are faster.

### Tasks

- Faster.
  And so on.
- A page.

"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write the files that a version stands in, with three fragments and the settings of this project's towncrier."""
    settings = (ROOT / "pyproject.toml").read_text("utf-8").partition("[tool.towncrier]")
    (tmp_path / "pyproject.toml").write_text(
        f'[project]\nname = "x"\nversion = "0.1.0"\n[tool.x]\nversion = "9"\n{settings[1]}{settings[2]}'
    )
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 0.1.0\ntitle: x\n")
    (tmp_path / "CHANGELOG.md").write_text(LOG)
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    shutil.copy(ROOT / "changelog.d" / "template.jinja", folder)
    (folder / "a.tasks.md").write_text("- Faster.\n  And so on.\n")
    (folder / "b.tasks.md").write_text("- A page.\n")
    (folder / "c.summary.md").write_text("Tasks are faster.\n")
    return tmp_path


def test_a_bump_is_one_step(project: Path) -> None:
    recipe.bump(project, "0.2.0", "2026-05-31")
    assert set(recipe.versions(project).values()) == {"0.2.0"}
    assert 'version = "9"' in (project / "pyproject.toml").read_text()
    assert "version: 0.2.0\ndate-released: 2026-05-31\n" in (project / "CITATION.cff").read_text()
    head = "newest first -->\n"
    assert (project / "CHANGELOG.md").read_text() == LOG.replace(head, head + SECTION.rstrip("\n") + "\n")
    assert [path.name for path in (project / "changelog.d").iterdir()] == ["template.jinja"]
    assert recipe.check_version(project).startswith("0.2.0 in")
    assert recipe.check_changelog(project, cut=True) == "section 0.2.0"


def test_what_stands_in_the_way_is_named(project: Path) -> None:
    with pytest.raises(recipe.Refused, match="'two' is no version"):
        recipe.bump(project, "two", "2026-05-31")
    settings = (project / "pyproject.toml").read_text().replace('"0.1.0"', '"0.2.0"', 1)
    (project / "pyproject.toml").write_text(settings)
    with pytest.raises(recipe.Refused, match=r"pyproject.toml says 0\.2\.0; CITATION.cff says 0\.1\.0"):
        recipe.check_version(project)
    (project / "CITATION.cff").write_text("version: 0.2.0\n")
    with pytest.raises(recipe.Refused, match=r"the tag is v0\.1\.0 and the version 0\.2\.0"):
        recipe.check_version(project, "v0.1.0")
    assert recipe.check_version(project, "v0.2.0")
    with pytest.raises(recipe.Refused, match=r"no section '## 0\.2\.0"):
        recipe.check_changelog(project, cut=False)
    (project / "CHANGELOG.md").write_text(LOG.replace("## 0.1.0", SECTION + "## 0.1.0"))
    assert "before it is cut: 3 fragments" in recipe.check_changelog(project, cut=False)
    with pytest.raises(recipe.Refused, match="3 fragments are not folded in"):
        recipe.check_changelog(project, cut=True)
    (project / "changelog.d" / "d.nonsense.md").write_text("- no such type\n")
    with pytest.raises(recipe.Refused, match=r"d\.nonsense\.md"):
        recipe.check_changelog(project, cut=False)


def test_a_long_summary_is_refused(project: Path) -> None:
    (project / "changelog.d" / "c.summary.md").write_text("word " * 301)
    with pytest.raises(recipe.Refused, match="the summary has 301 words; at most 300 are read"):
        recipe.check_fragments(project)


def test_the_changelog_of_this_checkout_opens_every_version_with_a_short_summary() -> None:
    for version, section in recipe.sections((ROOT / "CHANGELOG.md").read_text("utf-8")).items():
        assert 20 <= recipe.summary_words(section) <= recipe.SUMMARY_WORDS, version
    assert recipe.check_fragments(ROOT)
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


def commands(workflow: str) -> list[str]:
    """What the steps of a workflow run or use, in their order."""
    jobs = yaml.safe_load(WORKFLOWS[workflow])["jobs"].values()
    return [step.get("run") or step["uses"] for job in jobs for step in job["steps"]]


def test_ci_runs_what_make_has_on_every_system_and_python() -> None:
    matrix = yaml.safe_load(WORKFLOWS["ci"])["jobs"]["test"]["strategy"]["matrix"]
    assert matrix == {"os": ["ubuntu-latest", "macos-latest"], "python": ["3.11", "3.12", "3.13"]}
    makefile = (ROOT / "Makefile").read_text("utf-8")
    called = {
        workflow: {word for text in commands(workflow) for word in re.findall(r"\bmake ([\w./-]+)", text)}
        for workflow in WORKFLOWS
    }
    assert called["ci"] >= {"lint", "test", "demo", "coverage", "test-lowest", "release-check"}
    assert called["nightly"] == {"test-long"} and "schedule:" in WORKFLOWS["nightly"]
    for target in set.union(*called.values()) - {".venv/.dev"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert "tests/test_readme.py" in WORKFLOWS["ci"]
    assert 'build/coverage/table.md >> "$GITHUB_STEP_SUMMARY"' in WORKFLOWS["ci"]


def test_a_tag_is_tried_before_it_is_published_without_a_password() -> None:
    steps = " ".join(commands("publish"))
    order = [
        "make release-check CUT=1 TAG=",
        "python -m build",
        "upload-artifact@",
        "gh-action-pypi-publish@",
    ]
    positions = [steps.index(text) for text in order]
    assert positions == sorted(positions)
    workflow = yaml.safe_load(WORKFLOWS["publish"])
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "permissions" not in workflow["jobs"]["build"] and "secrets." not in WORKFLOWS["publish"]


def test_actions_are_pinned_by_hash_with_their_version() -> None:
    pins: dict[str, set[str]] = {}
    for name, text in WORKFLOWS.items():
        for line in re.findall(r"uses:.*", text):
            pin = re.fullmatch(r"uses: ([\w./-]+)@([0-9a-f]{40}  # v\d+\.\d+\.\d+)", line)
            assert pin, f"{name}.yml: {line}"
            pins.setdefault(pin[1], set()).add(pin[2])
    assert pins and all(len(versions) == 1 for versions in pins.values()), pins


@pytest.mark.parametrize("extra", ["dependencies", *PROJECT["optional-dependencies"]])
def test_a_requirement_stands_once(extra: str) -> None:
    lines = (PROJECT["optional-dependencies"] | {"dependencies": PROJECT["dependencies"]})[extra]
    names = [re.split(r"[\[<>=~! ]", line)[0].lower().replace("_", "-") for line in lines]
    assert sorted(names) == sorted(set(names))


def test_classifiers_name_nothing_that_ci_does_not_run() -> None:
    matrix = yaml.safe_load(WORKFLOWS["ci"])["jobs"]["test"]["strategy"]["matrix"]
    text = "\n".join(PROJECT["classifiers"])
    named = re.findall(r"^Programming Language :: Python :: (3\.\d+)$", text, re.MULTILINE)
    assert set(named) <= {*matrix["python"]}
    assert PROJECT["requires-python"] == f">={named[0]}"
    runners = {"POSIX :: Linux": "ubuntu-latest", "MacOS": "macos-latest"}
    systems = re.findall(r"^Operating System :: (.*)$", text, re.MULTILINE)
    assert systems and {runners[system] for system in systems} <= {*matrix["os"]}
    assert ("Typing :: Typed" in text) == (ROOT / "src/longshot/py.typed").is_file()


def test_the_lowest_versions_are_those_of_users() -> None:
    project = {
        "dependencies": ["numpy>=1.9", "Py_Yaml>=6"],
        "optional-dependencies": {"ray": ["ray[client]>=2.60", "numpy>=1.26"], "dev": ["pytest>=8"]},
    }
    assert lowest.lowest(lowest.requirements(project)) == {"numpy": "1.26", "py-yaml": "6", "ray": "2.60"}
    assert lowest.lowest(lowest.requirements(PROJECT)).keys() >= {"numpy", "torch", "fsspec"}


def test_a_requirement_without_a_lowest_version_is_named() -> None:
    with pytest.raises(ValueError, match="'torch<3' says no lowest version"):
        lowest.lowest(["torch<3"])


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
