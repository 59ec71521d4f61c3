"""The head of a card, for the Hugging Face Hub and ``datasets.load_dataset``: YAML between two lines of dashes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from longshot.publish.releases.licences import hub_licence

_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"))


def front_matter(facts: Mapping[str, Any]) -> str:
    """A configuration per testbed, each with one split ``test`` of one row per task; the first is the default."""
    tasks = sum(bed["tasks"] for bed in facts["testbeds"])
    entries = {
        "pretty_name": facts["title"],
        **hub_licence(facts["licence"]),
        "task_categories": ["image-classification"],
        "tags": ["few-shot-learning", "benchmark", "longshot"],
        "size_categories": [next((name for bound, name in _SIZES if tasks < bound), "1M<n<10M")],
        "configs": [
            {
                "config_name": bed["file"].removeprefix("testbeds/").removesuffix(".parquet"),
                "data_files": [{"split": "test", "path": bed["file"]}],
                **({"default": True} if number == 0 else {}),
            }
            for number, bed in enumerate(facts["testbeds"])
        ],
    }
    return f"---\n{yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)}---\n"


def without_front_matter(card: str) -> str:
    """The card for people.

    >>> without_front_matter("---\\ntags: []\\n---\\n# Title\\n")
    '# Title\\n'
    """
    head, line, body = card.partition("\n---\n")
    return body.lstrip("\n") if line and head.startswith("---\n") else card
