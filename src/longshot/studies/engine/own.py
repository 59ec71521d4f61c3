"""A study of one's own as a Python file: it defines ``RECIPE``, an instance of a class derived from ``Recipe``.

The file is a program and runs with the rights of whoever starts the study, as any script does.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.base import UserError

if TYPE_CHECKING:
    from longshot.studies.engine.recipe import Recipe


@cache
def load_recipe(path: Path) -> Recipe[Any, Any]:
    """The recipe that a Python file defines; UserError where it has none. ``path`` is absolute."""
    from longshot.studies.engine.recipe import Recipe

    if not path.is_file():
        raise UserError(
            f"The study file {path} does not exist; give a Python or YAML file, or a study by name."
        )
    name = f"longshot_study_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # pydantic looks annotations up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"The study file {path} cannot be run: {type(error).__name__}: {error}.") from error
    recipe = getattr(module, "RECIPE", None)
    if not isinstance(recipe, Recipe):
        raise UserError(
            f"The study file {path} defines no RECIPE; add RECIPE = MyRecipe(), where MyRecipe derives from "
            "longshot.studies.Recipe."
        )
    return recipe
