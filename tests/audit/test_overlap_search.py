"""Neighbours by cosine: exact against plain NumPy, the index against exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from longshot.audit import candidates
from longshot.audit.candidates import nearest
from longshot.base import UserError


def _vectors(rows: int, seed: int, dim: int = 30) -> NDArray[np.float32]:
    """Clustered vectors; the clusters are the same for every seed."""
    centres = np.random.default_rng(0).standard_normal((20, dim))
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(20, size=rows)] + 0.4 * rng.standard_normal((rows, dim))).astype(np.float32)


def _brute(queries: NDArray[Any], base: NDArray[Any]) -> NDArray[np.float64]:
    q, b = (x.astype(np.float64) for x in (queries, base))
    return (q / np.linalg.norm(q, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T


def test_exact_search_is_that_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_QUERIES", 64)  # several blocks of both
    monkeypatch.setattr(candidates, "_BASE", 100)
    queries, base = _vectors(150, 1), _vectors(230, 2)
    neighbours = nearest(queries, base, 4, index="exact", device="cpu")
    cosine = _brute(queries, base)
    order = np.argsort(-cosine, axis=1)[:, :4]
    np.testing.assert_array_equal(neighbours.rows, order)
    np.testing.assert_allclose(neighbours.similarity, np.take_along_axis(cosine, order, 1), atol=1e-5)


def test_the_own_row_is_left_out_within_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_QUERIES", 32)
    monkeypatch.setattr(candidates, "_BASE", 50)
    base = _vectors(120, 3)
    neighbours = nearest(base, base, 3, index="exact", leave_self=True, device="cpu")
    cosine = _brute(base, base)
    np.fill_diagonal(cosine, -2)
    np.testing.assert_array_equal(neighbours.rows, np.argsort(-cosine, axis=1)[:, :3])


def test_fewer_rows_than_wanted() -> None:
    base = _vectors(3, 4)
    assert nearest(base, base, 10, leave_self=True, device="cpu").rows.shape == (3, 2)
    assert nearest(base[:1], base[:1], 10, leave_self=True, device="cpu").rows.shape == (1, 0)


@pytest.mark.parametrize("dim", [32, 30, 510])  # short, filled up to a multiple of four, long
def test_the_index_finds_planted_copies_in_exact_order(dim: int) -> None:
    pytest.importorskip("faiss", reason="needs the extra 'overlap'")
    base = _vectors(4000, 5, dim)
    queries = base[:500] + 0.02 * _vectors(500, 6, dim)
    neighbours = nearest(queries, base, 5, index="ivf", device="cpu")
    assert np.mean(neighbours.rows[:, 0] == np.arange(500)) > 0.99
    cosine = np.take_along_axis(_brute(queries, base), neighbours.rows, 1)
    np.testing.assert_allclose(neighbours.similarity, cosine, atol=1e-5)
    assert (np.diff(neighbours.similarity, axis=1) <= 0).all()


def test_the_index_leaves_out_the_own_row() -> None:
    pytest.importorskip("faiss", reason="needs the extra 'overlap'")
    base = _vectors(2000, 7)
    neighbours = nearest(base, base, 2, index="ivf", leave_self=True, device="cpu")
    assert not (neighbours.rows == np.arange(2000)[:, None]).any()


def test_auto_takes_the_index_for_large_sets_only(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss", reason="needs the extra 'overlap'")
    monkeypatch.setattr(candidates, "EXACT_ROWS", 1000)
    large, small = _vectors(1500, 8), _vectors(800, 9)
    assert nearest(large, large, 1, device="cpu").index.startswith("ivf(")
    assert nearest(large, small, 1, device="cpu").index == "exact"


def test_without_faiss_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"longshot\[overlap\]"):
        nearest(_vectors(10, 1), _vectors(10, 2), 1, index="ivf")


def test_vectors_of_two_widths_are_refused() -> None:
    with pytest.raises(UserError, match="same backbone"):
        nearest(_vectors(3, 1, 8), _vectors(3, 1, 9), 1)
