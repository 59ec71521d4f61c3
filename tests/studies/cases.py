"""What tests that walk over every verb and command have to know of this wing (see ``tests/wings.py``)."""

from __future__ import annotations

from longshot.studies import get_study, study_names

OUTPUT_FOLDERS = {"study run": "better-testbed-small toybox"}
NOT_FOLLOWED = {
    "method": "a line of YAML, no parameter of a function; tests/studies/vtab_md",
    "run_study()": "trains networks for minutes; tests/studies run every study",
    "splits": "of a study that trains networks; tests/studies/transfer",
    "splits_per_divergence": "likewise",
}


def SETTINGS() -> dict[str, set[str]]:
    """The settings of all studies, which sentences of this room name."""
    settings = {name for study in study_names() for name in type(get_study(study).settings).model_fields}
    return {"studies": settings}
