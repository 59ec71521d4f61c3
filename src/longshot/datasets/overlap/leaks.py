"""Whether the data a network was trained on holds what it is tested on: by fingerprints, and overlaps found before."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from longshot.datasets.formats.view import origin
from longshot.datasets.overlap.record import recall

UNKNOWN, SAME, COMPARED = "unknown", "same dataset", "compared"


def find_leak(upstream: Mapping[str, Any], fingerprint: str, keys: Mapping[str, str]) -> dict[str, Any]:
    """What is known about training data and test images.

    ``upstream`` is the ``data`` of a trained network's sidecar (dataset, fingerprint, classes); ``keys`` maps each test
    image to its class, in the dataset with ``fingerprint``. The answer tells ``how`` it is known ("same dataset",
    "compared" by 'longshot datasets overlap', or "unknown"), and counts test ``images`` that training saw (copies,
    exact or near) and test ``classes`` that training had in some form.
    """
    trained = upstream.get("classes")
    classes = set(keys.values())
    known: dict[str, Any] = {
        "upstream": upstream.get("dataset"),
        "of_images": len(keys),
        "of_classes": len(classes),
    }
    given = upstream.get("fingerprint")
    if not given:
        return {**known, "how": UNKNOWN, "images": None, "classes": None}
    whole, left_out = origin(str(given))
    tested, _ = origin(fingerprint)
    if whole == tested:
        chosen = classes if trained is None else classes & set(trained)
        images = sum(c in chosen and key not in left_out for key, c in keys.items())
        return {**known, "how": SAME, "images": images, "classes": len(chosen)}
    found = recall(whole, tested)
    if found is None:
        return {**known, "how": UNKNOWN, "images": None, "classes": None}
    overlap, turned = found
    ours, theirs = ("b", "a") if turned else ("a", "b")
    images = _copied(overlap.copies().to_pylist(), ours, theirs, trained, left_out, keys)
    related = {
        getattr(shared, theirs)
        for shared in overlap.classes
        if (trained is None or getattr(shared, ours) in trained) and getattr(shared, theirs) in classes
    }
    return {**known, "how": COMPARED, "images": images, "classes": len(related)}


def _copied(
    pairs: list[dict[str, Any]],
    ours: str,
    theirs: str,
    trained: Collection[str] | None,
    left_out: frozenset[str],
    keys: Mapping[str, str],
) -> int:
    """Test images with a copy among the training images."""
    allowed = None if trained is None else set(trained)
    return len(
        {
            pair[f"key_{theirs}"]
            for pair in pairs
            if pair[f"key_{theirs}"] in keys
            and pair[f"key_{ours}"] not in left_out
            and (allowed is None or pair[f"class_{ours}"] in allowed)
        }
    )


def leak_sentence(leak: Mapping[str, Any], backbone: str, testbed: str) -> str | None:
    """The warning in words; None where nothing overlaps, or nothing is known."""
    if not leak.get("images") and not leak.get("classes"):
        return None
    how = "the same dataset" if leak["how"] == SAME else "compared by 'longshot datasets overlap'"
    return (
        f"'{backbone}' was trained on data that overlaps '{testbed}' ({leak['upstream']}, {how}): "
        f"{leak['images']:,} of {leak['of_images']:,} test images were seen in training, {leak['classes']:,} of "
        f"{leak['of_classes']:,} test classes have a related class there."
    )
