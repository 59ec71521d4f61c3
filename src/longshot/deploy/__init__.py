"""From a verdict to a classifier: which photos to take as references, and a model folder to ship."""

import lazy_loader

from longshot.base import Plugin

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

PLUGIN = Plugin(
    "References to take, a classifier to ship: choose, fit, predict, export.",
    commands={
        "choose": (
            "longshot.deploy.deploy_commands:choose_command",
            "Choose which photos should be the references of their classes.",
        ),
        "fit": (
            "longshot.deploy.deploy_commands:fit_command",
            "Make a classifier from photos, in a folder to ship.",
        ),
        "predict": (
            "longshot.deploy.deploy_commands:predict_command",
            "Answer for photos by a shipped classifier.",
        ),
        "export": (
            "longshot.deploy.deploy_commands:export_command",
            "Write a shipped classifier as one ONNX file.",
        ),
    },
    checks={"head.safetensors": "longshot.deploy.model_check:check_model"},
)
