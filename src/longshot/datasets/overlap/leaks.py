"""Whether the data a network was trained on holds what it is tested on: by fingerprints, and overlaps found before."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from longshot.datasets.formats.view import origin
from longshot.datasets.overlap.record import recall

UNKNOWN, SAME, COMPARED = "unknown", "same dataset", "compared"


def find_leak(upstream: Mapping[str, Any], fingerprint: str, keys: Mapping[str, str]) -> dict[str, Any]:
    """What is known about an overlap of training data and test images.

    Parameters
    ----------
    upstream : mapping
        The ``data`` of a trained network's sidecar: dataset, fingerprint, classes.
    fingerprint : str
        That of the dataset that the test images are from.
    keys : mapping
        Key of each test image → its class.

    Returns
    -------
    dict
        ``how`` it is known ("same dataset", "compared" by :func:`find_overlap`, or "unknown"), test ``images`` that
        training saw (copies, exact or near) of all ``of_images``, and test ``classes`` that training had in some form
        of all ``of_classes``.
    """
    trained = upstream.get("classes")
    classes = set(keys.values())
    totals = {"upstream": upstream.get("dataset"), "of_images": len(keys), "of_classes": len(classes)}
    unknown = {**totals, "how": UNKNOWN, "images": None, "classes": None}
    if not upstream.get("fingerprint"):
        return unknown
    training_data, left_out = origin(str(upstream["fingerprint"]))
    test_data, _ = origin(fingerprint)
    if training_data == test_data:
        shared = classes if trained is None else classes & set(trained)
        images = sum(class_id in shared and key not in left_out for key, class_id in keys.items())
        return {**totals, "how": SAME, "images": images, "classes": len(shared)}
    recalled = recall(training_data, test_data)
    if recalled is None:
        return unknown
    overlap, turned = recalled
    ours, theirs = ("b", "a") if turned else ("a", "b")
    images = _copied(overlap.copies().to_pylist(), ours, theirs, trained, left_out, keys)
    related = {
        getattr(pair, theirs)
        for pair in overlap.classes
        if (trained is None or getattr(pair, ours) in trained) and getattr(pair, theirs) in classes
    }
    return {**totals, "how": COMPARED, "images": images, "classes": len(related)}


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
    """The warning in words; None where no overlap is known."""
    if not leak.get("images") and not leak.get("classes"):
        return None
    how = "the same dataset" if leak["how"] == SAME else "compared image by image"
    return (
        f"'{backbone}' was trained on data that overlaps '{testbed}' ({leak['upstream']}, {how}): "
        f"{leak['images']:,} of {leak['of_images']:,} test images were seen in training, {leak['classes']:,} of "
        f"{leak['of_classes']:,} test classes have a related class there."
    )
