"""Meta-Dataset's own episodes in the two studies that are about its sources."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longshot.base import UserError
from longshot.data import read_spec, spec_dataset
from longshot.studies import Draw, get_study, layered
from longshot.studies.hard_md.hard_md_testbeds import draw_of, main
from longshot.studies.vtab_md.vtab_md_plan import episodes
from longshot.studies.vtab_md.vtab_md_sources import StudySource
from longshot.tasks import sample
from record_writers import flat_spec, write_spec

SIZES = [12, 14, 30, 21, 18, 16, 40]


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """A folder with the spec of 'small': seven test classes."""
    write_spec(tmp_path / "small", flat_spec(SIZES, (0, 0, 7)))
    return tmp_path


def _draw(study: str, specs: Path, source: str = "small") -> Draw:
    file = specs / "small" / "dataset_spec.json"
    data = spec_dataset("small", "none", read_spec(file), np.repeat(np.arange(7), SIZES), None)  # type: ignore[arg-type]
    settings = layered(
        get_study(study), None, (f"replay={specs}", "tasks=4", "seed=1234", "split=test")
    ).settings
    if study == "vtab-md":
        return episodes(settings, StudySource(source, "md", data, official=False), 4, 7)  # type: ignore[arg-type]
    return draw_of(settings, main("variable", "uniform", source), data)  # type: ignore[arg-type]


@pytest.mark.parametrize("study", ["vtab-md", "hard-md"])
def test_a_study_replays_the_episodes_of_the_spec(study: str, specs: Path) -> None:
    file = specs / "small" / "dataset_spec.json"
    draw = _draw(study, specs)
    assert draw.settings["shape"] == {"name": "replay"} and draw.settings["replay"] == str(file)
    data = spec_dataset("small", "none", read_spec(file), np.repeat(np.arange(7), SIZES), None)  # type: ignore[arg-type]
    data = data.with_identity("names")
    testbed = draw.draw(data, str)
    expected = sample(data, tasks=4, replay=file, split="test", seed=1234)  # the reference's own seed
    assert testbed.meta["sampler"]["episodes_sha256"] == expected.meta["sampler"]["episodes_sha256"]


def test_a_source_without_a_spec_is_named(specs: Path) -> None:
    with pytest.raises(UserError, match=r"neither other_dataset_spec.json nor other/dataset_spec.json"):
        _draw("hard-md", specs, "other")
