"""Write a Longshot method as a submission, with what it needs: own code, saved networks, a training."""

from __future__ import annotations

import ast
import json
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PositiveInt

from longshot.arena.settings import META, template
from longshot.arena.solver import HERE, SETTINGS
from longshot.base import Record, UserError, claim_folder, format_call, parse_call, read_record

if TYPE_CHECKING:
    from longshot.models import ImageMethod, Method


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
    """List the modules that a file imports, and the packages they are in."""
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
    """Name the backbone for settings.json; files that it needs go into the submission."""
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
            "save it as a network with longshot.models.networks.checkpoint.convert, then name its folder",
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
    from longshot.models import read_weights_sidecar, weights_file

    path = weights_file(name)
    call = str(read_weights_sidecar(path)["network"])
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
    """Write the files as a folder, or as a zip where ``out`` ends so; whole or not at all."""
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


SIZE = 84  # pixels of a side that a network is trained with unless said otherwise


class MetaTraining(Record):
    """What may be set of a training in ``meta_fit``; what is not set follows the algorithm's own recipe."""

    steps: PositiveInt
    batch: PositiveInt
    optimiser: str
    schedule: str
    clip: float  # largest norm of the gradient; 0: not clipped
    size: PositiveInt = SIZE  # pixels of a side


@dataclass(frozen=True)
class MadeSubmission:
    """A submission that was written."""

    path: Path
    title: str
    weights: tuple[str, ...]  # what in it has learned weights: the meta-learning league refuses it


def make_submission(
    method_or_network: str,
    out: str | Path,
    *,
    backbone: str | None = None,
    train: str | None = None,
    settings: Mapping[str, Any] | None = None,
    league: str | None = None,
) -> MadeSubmission:
    """Write any method, or any trained network, as a submission.

    Parameters
    ----------
    method_or_network : str
        A method (``tim(steps=100)``, ``mine.py:MyMethod``), which needs a ``backbone``, or a network (a trained
        network's folder or a backbone's name), which is used with the method it was trained for.
    out : str or Path
        A new folder, or a zip where it ends in .zip.
    backbone : str, optional
        Network that the method looks through; with ``train`` the network to train. Default: cnn4 with ``train``.
    train : ALGORITHM, str, optional
        Have meta_fit train the network, as in ``protonet`` or ``multiclass``.
    settings : mapping, optional
        Settings of the method, or with ``train`` of the training.
    league : str, optional
        Refuse what this league would refuse.

    Returns
    -------
    MadeSubmission
        Its path, its title, and what in it has learned weights.
    """
    from longshot.models import backbone_parts

    out = Path(out)
    if out.exists():
        raise UserError(f"{out} is there already; choose a new folder or zip for the submission.")
    claim_folder(out, "submission")
    method, names = _method_and_backbones(method_or_network, backbone, train)
    chosen = _method(method, {} if train else dict(settings or {}))
    packed = Packed()
    described: dict[str, Any] = {"method": _pack_method(chosen, packed)}
    if train:
        plan, config = _training(train, names or "cnn4", dict(settings or {}))
        described["train"] = plan
        packed.files["config.json"] = json.dumps(config, indent=2) + "\n"
        title = f"{_shown(chosen.call)} on {plan['network']} trained with {plan['algorithm']}"
    else:
        if not names:
            raise UserError(
                f"The method {chosen.call} needs a network to look through",
                "add {backbone} with pixels, efficientnet-lite0 or the folder of a trained network",
            )
        parts = backbone_parts(names)
        _check_fit(chosen, parts)
        described["backbones"] = [pack_backbone(name, number, packed) for number, name in enumerate(parts)]
        title = f"{_shown(chosen.call)} on {' + '.join(_shown(name) for name in parts)}"
    if league == META and packed.weights:
        raise UserError(
            f"The meta-learning league learns from nothing, but {packed.weights[0]} has learned weights",
            "choose another league, or let meta_fit train a network with {train:protonet}",
        )
    packed.files |= {
        "model.py": template("model.py.txt").format(title=title.replace("\\", "/").replace('"', "'")),
        SETTINGS: json.dumps(described, indent=2) + "\n",
        "metadata": "",
    }
    write_submission(packed.files, out)
    return MadeSubmission(out, title, tuple(packed.weights))


def _method_and_backbones(name: str, backbone: str | None, train: str | None) -> tuple[str, str | None]:
    """Return a method and its backbones; a network that is named takes the method it was trained for."""
    if not _is_network(name):
        return name, backbone
    if backbone is not None or train is not None:
        option = f"{{backbone:{backbone}}}" if backbone is not None else f"{{train:{train}}}"
        raise UserError(
            f"'{name}' is a network already, so {option} has no place",
            "name the method first, as in protonet",
        )
    return _trained_for(name), name


def _is_network(name: str) -> bool:
    from longshot.models import FAMILIES, split_sight

    first = split_sight(name.split(" + ")[0].strip())[0]
    backbones = [backbone for family in FAMILIES for backbone in family.names]
    named = any(first.startswith(each) if each.endswith(":") else first == each for each in backbones)
    return named or Path(first).is_dir() or first.endswith(".safetensors")


def _trained_for(name: str) -> str:
    """Return the method of the algorithm that a saved network was trained with; else nearest class means."""
    from longshot.models import read_weights_sidecar, weights_file
    from longshot.training import get_algorithm

    if not Path(name).exists():
        return "protonet"
    training = read_weights_sidecar(weights_file(name)).get("training")
    algorithm = training.get("algorithm") if isinstance(training, dict) else None
    return get_algorithm(str(algorithm)).method if algorithm else "protonet"


def _method(call: str, overrides: dict[str, Any]) -> Method | ImageMethod:
    """Return the method of ``call`` with some settings replaced; raise UserError where it leaves a choice open."""
    from longshot.base import is_tuned, tuned_method
    from longshot.models import ImageMethod, get_method, leaves_open

    name, settings = parse_call(tuned_method(call) if is_tuned(call) else call)
    chosen = get_method(format_call(name, {**settings, **overrides}))
    if leaves_open(chosen):
        assert isinstance(chosen, ImageMethod)
        candidates = chosen.candidates()
        raise UserError(
            f"The method {chosen.call} chooses a setting on validation classes, which a submission has not got",
            f"give the setting itself, as in {candidates[len(candidates) // 2].call}",
        )
    return chosen


def _check_fit(method: Method | ImageMethod, parts: list[str]) -> None:
    """Raise UserError where the method cannot work with these backbones."""
    from longshot.models import ImageMethod, adaptable

    if isinstance(method, ImageMethod):
        adaptable(" + ".join(parts), method.call, "cpu")


def _pack_method(method: Method | ImageMethod, packed: Packed) -> str:
    """Return the method's call for settings.json; a file of the user's goes into the submission."""
    name, settings = parse_call(method.call)
    if ".py:" not in name:
        return method.call
    file, _, attribute = name.rpartition(":")
    return format_call(f"{HERE}/{pack_code(Path(file), packed)}:{attribute}", settings)


def _training(call: str, network: str, overrides: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what settings.json and config.json say of a training in ``meta_fit``."""
    from longshot.base import parse_preprocessing
    from longshot.models import get_network, is_own_network
    from longshot.training import Algorithm, get_algorithm, make_optimiser, make_schedule

    algorithm = get_algorithm(call)
    if algorithm.refresh or type(algorithm).settle is not Algorithm.settle:
        raise UserError(
            f"Training with {algorithm.name} looks at its whole dataset again and again, which a submission's "
            f"generators do not offer",
            "choose protonet, matching, multiclass, fomaml or protomaml",
        )
    if algorithm.judges_start:
        raise UserError(
            f"Training with {algorithm.name} chooses among its networks on validation tasks, and what is made of a "
            f"method has none",
            f"write the baseline with {{competition.write_baseline({algorithm.name}, FOLDER)}}",
        )
    if not is_own_network(network):
        raise UserError(
            f"Only Longshot's own networks can be trained in a submission, not '{network}'",
            "give one to {backbone}, as in cnn4(width=32)",
        )
    recipe = {name: getattr(algorithm.recipe, name) for name in MetaTraining.model_fields if name != "size"}
    training = read_record(MetaTraining, {**recipe, **overrides}, "The training of a submission")
    preprocessing = parse_preprocessing(
        f"decode|resize({training.size})|central_crop({training.size})|normalize(imagenet)"
    )
    plan = {
        "algorithm": algorithm.call,
        "network": network,
        "preprocessing": preprocessing.text,
        **training.model_dump(exclude={"size"}),
    }
    made = get_network(algorithm.network(network), size=preprocessing.size)
    make_optimiser(training.optimiser, algorithm.groups(made))
    make_schedule(training.schedule, training.steps)
    if algorithm.episodic:
        shape = {"N": 5, "min_k": 1, "max_k": 20, "query_images_per_class": 20}
        return plan, {"train_data_format": "task", "train_config": shape}
    return plan, {"train_data_format": "batch", "batch_size": training.batch}


def _shown(name: str) -> str:
    """Strip a name of the folders of this machine."""
    head, parenthesis, settings = name.partition("(")
    return f"{Path(head).name}{parenthesis}{settings}"
