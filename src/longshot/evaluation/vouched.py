"""What a run vouches for by the names of images only, in words for wherever its results are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_UNNOTICED = "so that other pictures under these names would go unnoticed"


def names_only(run: Mapping[str, Any]) -> list[str]:
    """One sentence for each testbed, and each network's view of a dataset, of which only names were compared.

    Parameters
    ----------
    run : mapping
        The record of a run, ``Results.run``.

    Returns
    -------
    list of str
        Empty where everything was compared by its bytes.

    Examples
    --------
    >>> bed = {"name": "hard", "content": {"birds": {"identity": "names"}}, "datasets": {"birds": "f1"}}
    >>> names_only({"testbeds": {"h": bed}, "backbones": {}})
    ['identity of the testbed hard: names only of birds, so that other pictures under these names would go unnoticed']
    """
    lines, by_content = [], set()
    for bed in run["testbeds"].values():
        names = []
        for dataset, identity in _identities(bed):
            if identity == "names":
                names.append(dataset)
            else:
                by_content.add(str(_mapping(bed.get("datasets")).get(dataset)))
        if names:
            lines.append(
                f"identity of the testbed {bed['name']}: names only of {', '.join(names)}, {_UNNOTICED}"
            )
    for label, views in run["backbones"].items():
        datasets = sorted(
            str(view.get("dataset"))
            for fingerprint, view in views.items()
            if fingerprint in by_content and _by_names(view)
        )
        if datasets:
            lines.append(
                f"identity of the images behind '{label}': names only of {', '.join(datasets)}, {_UNNOTICED}"
            )
    return lines


def _identities(bed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(dataset, identity) of a testbed's record; folders of earlier versions say nothing."""
    for dataset, entry in sorted(_mapping(bed.get("content")).items()):
        yield dataset, str(_mapping(entry).get("identity"))


def _by_names(view: Mapping[str, Any]) -> bool:
    networks = view.get("networks")
    return isinstance(networks, list | tuple) and any(
        _mapping(network).get("images") == "names" for network in networks
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
