"""Baselines as real submissions: a folder each, one shared ``helpers.py`` that is packed beside their ``model.py``.

The names and settings are those of the Cross-Domain MetaDL paper (appendix E). They run inside the sandbox only.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longshot.core.errors import UserError
from longshot.core.settings import nearest

FOLDER = Path(__file__).parent
BASELINES: dict[str, str] = {
    "random": "guesses",
    "train-from-scratch": "a network from nothing for every task",
    "fine-tuning": "a network trained on batches, its last layer fitted to every task",
    "matching": "Matching Networks: trained on tasks, cosine to every support image",
    "prototypical": "Prototypical Networks: trained on tasks, distance to class means",
    "fomaml": "first-order MAML: a start from which a few steps fit a task",
    "metadelta": "MetaDelta++ (small): batches with rotations, several heads, chosen on validation tasks",
}


def write_baseline(name: str, folder: str | Path, settings: Mapping[str, Any] | None = None) -> Path:
    """Write a baseline as a submission.

    Parameters
    ----------
    name : str
        One of ``BASELINES``.
    folder : str or Path
        A new folder.
    settings : mapping, optional
        Settings that replace those of the baseline's settings.json.

    Returns
    -------
    Path
        ``folder``.
    """
    folder = Path(folder)
    if name not in BASELINES:
        raise UserError(f"There is no baseline '{name}'; {nearest(name, BASELINES, 'there are:')}")
    if folder.exists():
        raise UserError(f"{folder} is there already; choose a new folder for the submission.")
    source = FOLDER / name.replace("-", "_")
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(FOLDER / "helpers.py", folder / "helpers.py")
    path = folder / "settings.json"
    defaults = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    unknown = sorted(set(settings or {}) - set(defaults))
    if unknown:
        shutil.rmtree(folder)
        names = ", ".join(defaults) or "none"
        raise UserError(f"The baseline '{name}' has no setting '{unknown[0]}'; it has: {names}.")
    if defaults:
        path.write_text(json.dumps({**defaults, **(settings or {})}, indent=2) + "\n", encoding="utf-8")
    return folder
