"""Baselines as real submissions: a folder each, one shared ``helpers.py`` that is packed beside their ``model.py``.

The names and settings are those of the Cross-Domain MetaDL paper (section 4.2 and appendix E): what is trained holds
three in ten of its datasets out and keeps the learner that did best on them. They run inside the sandbox only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.base import UserError, claim_folder, nearest

if TYPE_CHECKING:
    from longshot.arena.submission_writer import Packed

FOLDER = Path(__file__).parent
NONE = "none"  # weights that stand for random ones
TRAINABLE = ("efficientnet", "checkpoint", "torch_file")  # families whose networks a box can open and train
BASELINES: dict[str, str] = {
    "random": "guesses",
    "train-from-scratch": "a network from nothing for every task",
    "fine-tuning": "a network trained on batches, its last layer fitted to every task",
    "matching": "Matching Networks: trained on tasks, cosine to every support image",
    "prototypical": "Prototypical Networks: trained on tasks, distance to class means",
    "fomaml": "first-order MAML: a start from which a few steps fit a task",
    "metadelta": "MetaDelta++: the last stages of a pre-trained network, exact transport of the queries",
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
        Settings that replace those of the baseline's settings.json. ``weights`` names what the network starts from:
        ``"none"`` (random weights; the default of all but ``metadelta``), ``"efficientnet-lite0"``, or the folder of a
        trained network, which is packed into the submission.

    Returns
    -------
    Path
        ``folder``.
    """
    from longshot.arena.submission_writer import Packed, write_submission  # here: it imports torch

    folder = Path(folder)
    if name not in BASELINES:
        raise UserError(f"There is no baseline '{name}'; {nearest(name, BASELINES, 'there are:')}")
    if folder.exists():
        raise UserError(f"{folder} is there already; choose a new folder for the submission.")
    claim_folder(folder, "submission", name="folder")
    source = FOLDER / name.replace("-", "_")
    path = source / "settings.json"
    defaults = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    unknown = sorted(set(settings or {}) - set(defaults))
    if unknown:
        names = ", ".join(defaults) or "none"
        raise UserError(f"The baseline '{name}' has no setting '{unknown[0]}'; it has: {names}.")
    values, packed = {**defaults, **(settings or {})}, Packed()
    if "weights" in values:
        values["weights"] = _weights(name, str(values["weights"]), packed)
    files = [file for file in sorted(source.iterdir()) if file.is_file()]
    packed.files |= {file.name: file for file in [*files, FOLDER / "helpers.py"]}
    if values:
        packed.files["settings.json"] = json.dumps(values, indent=2) + "\n"
    write_submission(packed.files, folder)
    return folder


def _weights(baseline: str, weights: str, packed: Packed) -> str:
    """What settings.json calls the weights; a trained network goes into the submission. UserError where there are none.

    Weights that cannot be had are never replaced by random ones.
    """
    from longshot.arena.submission_writer import pack_backbone
    from longshot.models import find_family

    if weights == NONE:
        return NONE
    remedy = (
        "name others with {settings:weights=FOLDER} (a trained network) or {settings:weights=efficientnet-lite0}, or "
        "say {settings:weights=none} for random ones"
    )
    try:
        if find_family(weights).module not in TRAINABLE:
            raise UserError("it is no network that can be trained in a submission")
        return pack_backbone(weights, 0, packed)
    except UserError as error:
        raise UserError(
            f"The baseline '{baseline}' cannot start from the weights '{weights}': {str(error).rstrip('.')}",
            remedy,
        ) from error
