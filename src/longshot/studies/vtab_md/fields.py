"""The settings of the study VTAB+MD that are mappings: sources, networks to train, rows, figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from longshot.core.errors import UserError
from longshot.studies.engine.fields import Field
from longshot.studies.vtab_md.data import GROUPS, role_of

KINDS = ("aggregate", "md", "vtab", "both", "grid")
_ROW = ("backbone", "method", "md", "vtab", "tasks", "group", "capacity", "resolution")
_FIGURE = ("kind", "rows", "reference", "title")
EPISODES = ("own", "meta-dataset")
_NETWORK = ("algorithm", "data", "validate", "without", "each", "episodes")


def sources() -> Field:
    """Name of a source → its dataset."""

    def parse(value: Any) -> dict[str, str]:
        found = {str(key): str(spec) for key, spec in _mapping(value).items()}
        for key in found:
            role_of(key)
        return found

    return Field("a mapping of sources to datasets, as in {omniglot: PATH, pets: PATH}", parse)


def cut() -> Field:
    """How one plain dataset becomes sources: branches for episodes, labels of big episodes by group."""

    def parse(value: Any) -> dict[str, Any]:
        given = _mapping(value)
        images = given.get("images")
        if set(given) != {"md", "images", *GROUPS} or not _count(given["md"], 0):
            raise ValueError
        if images is not None and not _count(images, 10):
            raise ValueError
        return {"md": given["md"], "images": images, **{group: _texts(given[group]) for group in GROUPS}}

    return Field(
        "a mapping of md (branches), images (a number or null), natural, specialized and structured (attributes)",
        parse,
    )


def networks() -> Field:
    """Name → how a network is trained: algorithm, data, validate, episodes, and settings of ``longshot train``."""

    def parse(value: Any) -> dict[str, dict[str, Any]]:
        return {str(name): _network(str(name), _mapping(given)) for name, given in _mapping(value).items()}

    return Field(
        "a mapping of names to trainings, as in {proto: {algorithm: protonet, data: [omniglot]}}", parse
    )


def _network(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    from longshot.training.registry import get_algorithm
    from longshot.training.settings import TrainingSettings

    if " + " in name:
        raise UserError(
            f"The network '{name}' has ' + ' in its name, which joins networks; call it otherwise."
        )
    closed = ("shape", "classes", "device", "devices", "seed")
    known = [*_NETWORK, *(key for key in TrainingSettings.model_fields if key not in closed)]
    _known(f"The network '{name}'", given, known)
    found = {"validate": [], "without": [], "each": False, "episodes": "own", **given}
    if "algorithm" not in found or "data" not in found:
        raise UserError(
            f"The network '{name}' needs algorithm and data, as in {{algorithm: multiclass, data: [dtd]}}."
        )
    found["algorithm"] = get_algorithm(str(found["algorithm"])).call
    found |= {key: _texts(found[key]) for key in ("data", "validate", "without")}
    if not found["data"] or found["episodes"] not in EPISODES:
        raise UserError(
            f"The network '{name}' needs at least one source under data, and episodes are {' or '.join(EPISODES)}."
        )
    return found


def rows() -> Field:
    """Name → an approach: ``backbone``, and methods on episodes (``md``) and on big episodes (``vtab``: candidates)."""

    def parse(value: Any) -> dict[str, dict[str, Any]]:
        found = {str(name): _row(str(name), _mapping(given)) for name, given in _mapping(value).items()}
        if not found:
            raise ValueError
        return found

    return Field(
        "a mapping of names to approaches, as in {ProtoNet: {backbone: pixels, method: protonet}}", parse
    )


def _row(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    from longshot.methods.registry import get_method

    _known(f"The row '{name}'", given, _ROW)
    both = given.get("method")
    md, vtab = given.get("md", both), given.get("vtab", both)
    if md is None and vtab is None:
        raise UserError(
            f"The row '{name}' has no method; give method, or md and vtab, as in {{method: protonet}}."
        )
    if not (given.get("tasks") is None or _count(given["tasks"], 2)):
        raise UserError(
            f"The row '{name}' has {given['tasks']!r} tasks; a whole number of 2 or more is needed."
        )
    return {
        "backbone": _optional_text(given.get("backbone")),
        "md": None if md is None else get_method(str(md)).call,
        "vtab": list(dict.fromkeys(get_method(one).call for one in _texts([] if vtab is None else vtab))),
        "tasks": given.get("tasks"),
        "group": _optional_text(given.get("group")) or "",
        "capacity": _optional_text(given.get("capacity")),
        "resolution": given.get("resolution"),
    }


def figures() -> Field:
    """Name → a picture: its kind, the rows it shows (null: all) and a row whose mean is drawn as a line."""

    def parse(value: Any) -> dict[str, dict[str, Any]]:
        return {str(name): _figure(str(name), _mapping(given)) for name, given in _mapping(value).items()}

    return Field(f"a mapping of names to pictures, whose kinds are {', '.join(KINDS)}", parse)


def _figure(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    _known(f"The figure '{name}'", given, _FIGURE)
    if given.get("kind") not in KINDS:
        raise UserError(
            f"The figure '{name}' is of the kind {given.get('kind')!r}; the kinds are {', '.join(KINDS)}."
        )
    wanted = given.get("rows")
    return {
        "kind": given["kind"],
        "rows": None if wanted is None else _texts(wanted),
        "reference": _optional_text(given.get("reference")),
        "title": _optional_text(given.get("title")) or "",
    }


def tables_of_paper() -> Field:
    """Numbers of the paper's tables that stand beside one's own."""

    def parse(value: Any) -> list[int]:
        found = value if isinstance(value, list) else [value]
        if not all(_count(one, 4) and one <= 9 for one in found) or len(set(found)) != len(found):
            raise ValueError
        return sorted(found)

    return Field("a list of tables of the paper, 4 to 9, as in [4, 5], or []", parse)


def _known(what: str, given: Mapping[str, Any], keys: Any) -> None:
    unknown = [key for key in given if key not in keys]
    if unknown:
        raise UserError(f"{what} has no '{unknown[0]}'; it takes {', '.join(keys)}.")


def _mapping(value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _texts(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [_checked(one, lambda text: isinstance(text, str) and bool(text.strip())) for one in listed]


def _optional_text(value: Any) -> str | None:
    return None if value is None else str(_checked(value, lambda text: isinstance(text, str)))


def _checked(value: Any, good: Callable[[Any], bool]) -> Any:
    if not good(value):
        raise ValueError
    return value


def _count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
