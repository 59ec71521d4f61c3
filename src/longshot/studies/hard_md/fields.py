"""The setting of the study Hard-Meta-Dataset++ that is a mapping: networks to train."""

from __future__ import annotations

from typing import Any

from longshot.core.errors import UserError
from longshot.studies.engine.fields import Field


def networks() -> Field:
    """Name → a training: ``algorithm``, ``data`` (a source; null: the first) and settings of ``longshot train``."""

    def parse(value: Any) -> dict[str, dict[str, Any]]:
        from longshot.training.registry import get_algorithm
        from longshot.training.settings import TrainingSettings

        if not isinstance(value, dict):
            raise ValueError
        found: dict[str, dict[str, Any]] = {}
        for name, given in value.items():
            if not isinstance(given, dict) or "algorithm" not in given:
                raise ValueError
            known = {"algorithm", "data", *TrainingSettings.model_fields} - {"seed", "device", "devices"}
            unknown = sorted(set(given) - known)
            if unknown:
                raise UserError(
                    f"The network '{name}' has no setting '{unknown[0]}'; the settings are those of 'longshot "
                    f"train', "
                    "algorithm and data."
                )
            found[str(name)] = {
                "data": None,
                **given,
                "algorithm": get_algorithm(str(given["algorithm"])).call,
            }
        return found

    return Field("a mapping of names to trainings, as in {small: {algorithm: protonet, steps: 500}}", parse)
