"""One of everything that a package can add to Longshot."""

from longshot.base import Plugin

PLUGIN = Plugin(
    about="an example of everything that a package can add",
    commands={
        "class-counts": ("longshot_example.command:command", "Count how often a testbed uses each class."),
    },
    methods={"median-prototypes": "longshot_example.method:MedianPrototypes"},
    backbones={"colour-grid": ("longshot_example.backbone:load", "mean colours of a 4 × 4 grid, no network")},
    formats={"label-in-name": "longshot_example.dataset_format:LabelInName"},
    classes={"neighbouring-names": "longshot_example.samplers:NeighbouringNames"},
    instances={"first-images": "longshot_example.samplers:FirstImages"},
    studies={"more-shots": "longshot_example.study"},
)
