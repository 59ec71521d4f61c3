"""Networks that a study trains itself: each in a folder named by what decides it, each with an estimate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.core.files import hash_json

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.studies.engine.folder import StudyFolder

TRAININGS = "trainings"  # where networks lie in a study's folder


def slug(text: str) -> str:
    """Text as a file name.

    >>> slug("R = 0.04 maml 5-shot")
    'R-0.04-maml-5-shot'
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


@dataclass(frozen=True, eq=False)
class StudyTraining:
    """A network to train.

    ``identity`` is what another network would differ in: it names the folder. ``limits`` are options that may change
    in one folder, and that are tried again when they do.
    """

    label: str
    data: Dataset
    algorithm: str
    options: Mapping[str, Any]  # keyword arguments of ``train``
    identity: Any
    limits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return training_folder(self.label, self.identity)

    def run(self, folder: StudyFolder, device: str) -> str:
        """The path of the trained network; one that is finished is not touched."""
        from longshot.reports.learning_curves import folder_curves
        from longshot.training.loop import train

        path = folder.path / TRAININGS / self.folder

        def work() -> None:
            options = {**self.options, **self.limits, "device": device, "curves": folder_curves}
            train(self.algorithm, self.data, out=path, **options)

        inputs = [path.name, dict(self.limits)] if self.limits else path.name
        folder.step(f"training {self.label}", inputs, [path / "training.json"], work)
        return str(path)

    def cost(self, device: str, **options: Any) -> dict[str, Any]:
        """``seconds`` and ``bytes`` of the training, measured on a few steps; ``options`` replace its own."""
        from longshot.training.cost import estimate
        from longshot.training.settings import training_settings

        own = {**self.options, **self.limits, **options}
        return estimate(self.algorithm, self.data, training_settings(**own, device=device))


def training_folder(label: str, identity: Any) -> str:
    """A folder name for people that another identity does not share."""
    return f"{slug(label)}-{hash_json(identity)[:8]}"


def training_step(label: str, images: int, seconds: float, size: int = 0) -> dict[str, Any]:
    """A training as a step of a study's estimate."""
    step = {"step": f"train {label}", "testbed": "", "method": "", "left": images}
    return {**step, "seconds": seconds, "bytes": size}


def training_outcome(path: Path) -> dict[str, Any]:
    """What a training came to: steps, the step that was kept, seconds, accuracy on validation tasks."""
    from longshot.training.folders import read_trained

    trained = read_trained(path)
    return {
        "steps": trained.steps,
        "best_step": trained.best_step,
        "seconds": round(trained.seconds, 1),
        "validation_accuracy": trained.validation_accuracy,
    }


def option_names() -> list[str]:
    """The options of ``train`` that a study's networks may set; seed and device are the study's own."""
    from longshot.training.settings import TrainingSettings

    return [name for name in TrainingSettings.model_fields if name not in ("seed", "device", "devices")]
