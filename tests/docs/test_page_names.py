"""The pages of the documentation use names that exist."""

from __future__ import annotations

import ast
import re
import textwrap
from importlib import import_module
from pathlib import Path

import pytest
from tools.doc_blocks import ROOT, page_name, pages

import longshot

PAGES = [*pages(), ROOT / "CONTRIBUTING.md"]
_FENCED = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_IMPORT = re.compile(
    r"^[ >]*((?:from longshot[\w.]* import [\w, ]+)|(?:import longshot[\w.]*))$", re.MULTILINE
)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_import_works(page: Path) -> None:
    for line in _IMPORT.findall(page.read_text("utf-8")):
        exec(line, {})


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_call_of_longshot_has_parameters_that_exist(page: Path) -> None:
    from inspect import signature

    from longshot.tasks import SampleSettings

    for block in _FENCED.findall(page.read_text("utf-8")):
        for node in ast.walk(ast.parse(textwrap.dedent(block))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "longshot"):
                continue
            parameters = {*signature(getattr(longshot, node.func.attr)).parameters}
            if "settings" in parameters:
                parameters |= set(SampleSettings.__annotations__)
            assert {keyword.arg for keyword in node.keywords} <= parameters, ast.unparse(node)


def test_modules_that_pages_name_exist() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    for name in sorted(
        set(re.findall(r"`(longshot(?:\.[a-z_]+)+)`", text)) - {"longshot.plugins", "longshot.digests"}
    ):  # a group of entry points, a key of metadata
        module, _, attribute = name.rpartition(".")
        try:
            import_module(name)
        except ModuleNotFoundError:
            assert hasattr(import_module(module), attribute), name
