"""On a Ray cluster on loopback: the same bytes as on threads of this process. The rest is in test_cluster_long.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scale_world import World


def test_a_small_cluster_gives_the_bytes_of_this_machine(
    world: World,
    here: Callable[[str], dict[str, str]],
    start_cluster: Callable[..., Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Embedding, methods on features and one that adapts a network; and the room says where it ran."""
    expected = {verb: here(verb) for verb in ("embed", "evaluate")}
    start_cluster(2)
    for verb, digests in expected.items():
        assert getattr(world, verb)(tmp_path / verb, on="ray") == digests
    assert "work runs on 2 nodes, 2 processors of the Ray cluster" in capsys.readouterr().err
