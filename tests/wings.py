"""What tests that walk over every verb or command have to know of a wing: ``tests/WING/cases.py`` tells it.

Such a test stands in a room of the core. It walks over what is installed: all of it in a whole tree, and the core
where the wings and their tests are not there (``tests/test_core_alone.py``). A wing's ``cases`` may hold

- ``OUTPUT_FILES``, ``OUTPUT_ARGUMENTS``, ``OUTPUT_FOLDERS``, ``OUTPUT_ENDINGS``, ``OUTPUTS_ELSEWHERE``: see
  ``tests/cli/test_outputs.py``;
- ``RUN_READERS``: command lines that read a run, see ``tests/evaluation/test_damaged_runs.py``;
- ``BY_NAMES``, ``BY_NAMES_LONG``: what its verbs make, see ``tests/data/test_identity_by_names.py``;
- ``MISTAKES``, ``NOT_FOLLOWED``: see ``tests/api/test_remedies_followed.py``;
- ``SETTINGS``: parameters that its sentences may name beside those of verbs, see ``tests/api/test_remedies.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from longshot.base import list_plugins


def wing_cases(kind: str) -> Iterator[Any]:
    """Yield what every wing that is installed has of one kind."""
    for wing in list_plugins():
        if (Path(__file__).parent / wing / "cases.py").exists():
            cases = import_module(f"{wing}.cases")
            if hasattr(cases, kind):
                yield getattr(cases, kind)
