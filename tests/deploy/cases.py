"""What tests that walk over every verb and command have to know of this wing (see ``tests/wings.py``)."""

from __future__ import annotations

from remedies import Mistake

OUTPUT_FILES = {
    ("choose", "out"): ("new.json",),
    ("choose", "html"): ("new.html",),
    ("predict", "out"): ("new.csv", "new.jsonl", "new.parquet", "new.html"),
    ("export", "onnx"): ("new.onnx",),
}
OUTPUT_ARGUMENTS = {
    "choose": "{few} --shot 1 --backbone pixels --judge pixels --draws 2",
    "predict": "{missing}-model {few}",
    "export": "{missing}-model",
}
OUTPUT_FOLDERS = {"fit": "{few} --backbone pixels"}
OUTPUT_ENDINGS = [("predict", "out", "x.pdf", ".csv or .jsonl or .parquet or .html")]

MISTAKES = [
    Mistake(
        "photos", "choose", ("photos",), {"photos": 2, "backbones": "pixels", "judge": "pixels", "draws": 2}
    ),
    Mistake("false_accept", "fit", ("photos",), {"false_accept": 5, "backbone": "pixels"}),
]
NOT_FOLLOWED = {
    "fit()": "makes a model in place of one that was altered; tests/deploy alters one and fits it again",
    "choose()": "chooses anew in place of references that changed; tests/deploy changes one",
}
