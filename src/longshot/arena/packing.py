"""Putting files into a submission: a participant's own code, saved networks, and the folder or zip itself."""

from __future__ import annotations

import ast
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from longshot.arena.solver import HERE
from longshot.base import UserError

OWN = "own"  # folder of the participant's own code in the submission


@dataclass
class Packed:
    """What goes into the submission: files by their path in it, and why a league may refuse it."""

    files: dict[str, Path | str] = field(default_factory=dict)  # path in it → file to copy, or text
    weights: list[str] = field(default_factory=list)  # what comes with learned weights


def pack_code(path: Path, packed: Packed) -> str:
    """Copy a Python file and the neighbours it imports into ``own/``; gives its path in the submission."""
    todo, seen = [path], set[Path]()
    while todo:
        source = todo.pop()
        if source in seen:
            continue
        seen.add(source)
        packed.files[f"{OWN}/{source.relative_to(path.parent).as_posix()}"] = source
        for module in _imports(source):
            package = path.parent.joinpath(*module.split("."))
            if (file := package.with_suffix(".py")).is_file():
                todo.append(file)
            elif package.is_dir():
                todo += [inner for inner in sorted(package.rglob("*.py")) if "__pycache__" not in inner.parts]
    return f"{OWN}/{path.name}"


def _imports(path: Path) -> list[str]:
    """Names of the modules that a file imports, and of the packages they are in."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{path} is no Python that can be read ({error}); mend it.") from error
    modules: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.append(node.module)
    return [*modules, *(name.partition(".")[0] for name in modules if "." in name)]


def pack_backbone(name: str, number: int, packed: Packed) -> str:
    """The backbone's name for settings.json; files that it needs go into the submission."""
    from longshot.models import find_family, load_backbone, split_sight

    family = find_family(name)
    if family.module in ("timm", "hf", "npy"):
        lacking = "features of one dataset" if family.module == "npy" else "downloaded weights"
        raise UserError(
            f"The backbone '{name}' works with {lacking}, which the sandbox has not got",
            "take pixels, efficientnet-lite0, onnx:FILE, torch:FILE.py:FUNCTION or a trained network's folder",
        )
    if family.module == "weights_file":
        raise UserError(
            f"The backbone '{name}' reads its weights from a file of others, which a submission does not",
            "save it as a network with longshot.models.convert_checkpoint, then name its folder",
        )
    backbone = load_backbone(name, "cpu")  # a missing file or package is told here, not in the sandbox
    if family.module == "pixels":
        return name
    packed.weights.append(name)
    bare = split_sight(name)[0]
    if family.module == "efficientnet":
        return name
    if family.module == "onnx":
        packed.files[f"network-{number}.onnx"] = Path(bare.removeprefix("onnx:"))
        inside = f"onnx:{HERE}/network-{number}.onnx"
    elif family.module == "torch_file":
        file, _, function = bare.removeprefix("torch:").rpartition(":")
        inside = f"torch:{HERE}/{pack_code(Path(file), packed)}:{function}"
    else:
        inside = _pack_network(bare, number, packed)
    return backbone.sight.named(inside)


def _pack_network(name: str, number: int, packed: Packed) -> str:
    from longshot.models import read_sidecar, weights_file

    path = weights_file(name)
    call = str(read_sidecar(path)["network"])
    foreign = [kind for kind in ("timm:", "hf:", "torch:") if kind in call]
    if foreign:
        raise UserError(
            f"The network {name} was built from '{call}', which the sandbox cannot build again",
            "export it and pack onnx:FILE instead",
        )
    packed.files[f"network-{number}/{path.name}"] = path
    packed.files[f"network-{number}/{path.with_suffix('.json').name}"] = path.with_suffix(".json")
    return f"{HERE}/network-{number}/{path.name}"


def write_submission(files: Mapping[str, Path | str], out: Path) -> None:
    """The files as a folder, or as a zip where ``out`` ends so; whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".submission-") as temporary:
        made = Path(temporary, out.name)
        if out.suffix == ".zip":
            with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in sorted(files.items()):
                    archive.writestr(
                        name, content.encode() if isinstance(content, str) else content.read_bytes()
                    )
        else:
            for name, content in files.items():
                target = made / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, str):
                    target.write_text(content, encoding="utf-8")
                else:
                    shutil.copyfile(content, target)
        made.rename(out)
