"""Backbones from the user's own files: code (``torch:``), an ONNX network (``onnx:``), embeddings (``npy:``).

``torch:FILE.py:FUNCTION``: FUNCTION takes no argument and returns an ``nn.Module`` from images [B, 3, H, W] to [B, d]
(or a map [B, d, h, w], which is averaged). The module's attribute ``preprocessing`` says which pixels it takes.

``onnx:FILE``: one image input [B, 3, H, W] float32 and vectors out. With several outputs the last [B, d] one counts,
else the last [B, d, h, w] one, averaged over space. A file with a fixed B is run B images at a time. Which pixels it
takes is given, or stands in its metadata under ``preprocessing``.

``npy:FILE``: FILE.npy is [N, d]. Its rows follow the dataset's order, unless keys say otherwise: FILE.keys.txt with
one key per line, or a Longshot sidecar FILE.json (as ``embed -o`` writes). FILE.npz holds ``features`` and optional
``keys``.
"""

from __future__ import annotations

import json
import sys
import zipfile
from functools import cached_property
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longshot.base import (
    UserError,
    count,
    first,
    format_call,
    hash_file,
    hash_text,
    parse_call,
    parse_engine,
    parse_preprocessing,
    pick_device,
    quote_words,
)
from longshot.data import Dataset
from longshot.models.backbones import load_backbone
from longshot.models.backbones.base import Backbone, ModuleBackbone, Precomputed, hash_state, in_blocks
from longshot.models.backbones.sight import Sight, example_for, own_sight
from longshot.models.features import Features
from longshot.models.features.array_files import describe, load_problem, sidecar
from longshot.models.networks import get_network, is_own_network, network_names
from longshot.models.networks.base import Network
from longshot.models.networks.checkpoint import (
    default_preprocessing,
    fill,
    load_checkpoint,
    read_published,
    read_weights_sidecar,
    remember_run,
    weights_file,
)


class TorchFile(ModuleBackbone):
    """The user's module; built at once, since its weights are part of its hash."""

    own_code = True

    def __init__(self, name: str, network: nn.Module, text: str, sight: Sight, device: str) -> None:
        super().__init__(name, hash_state(network, text), sight, device)
        # the function: a file may hold several
        self.made, self.architecture = network, name.rpartition(":")[2]
        # A module that was moved to channels-last wants its images so; others may use .view().
        weights = [p for p in network.parameters() if p.ndim == 4]
        self.channels_last = any(
            p.is_contiguous(memory_format=torch.channels_last) and not p.is_contiguous() for p in weights
        )


def open_torch_file(name: str, *, device: str, sight: Sight, allow_download: bool) -> TorchFile:
    """Run the file and call the function, with a fixed seed so that random weights are the same each time."""
    file, _, function = name.removeprefix("torch:").rpartition(":")
    if not file or not function.isidentifier():
        raise UserError(f"Backbone '{name}' is unfinished; write torch:FILE.py:FUNCTION.")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"Backbone '{name}': there is no file {path}; give the path of a Python file.")
    try:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            names = _run(path)
            maker = names.get(function)
            network = maker() if callable(maker) else None
    except Exception as error:
        raise UserError(
            f"Backbone '{name}': {path.name} failed with {type(error).__name__}: {error}; mend the file."
        ) from error
    if maker is None:
        functions = [k for k, v in names.items() if callable(v) and not k.startswith("_")]
        raise UserError(f"Backbone '{name}': {path} has no '{function}'; it has {', '.join(functions)}.")
    if not isinstance(network, nn.Module):
        raise UserError(
            f"Backbone '{name}': {function} is or returns a {type(network).__name__}; "
            f"a function that returns a torch.nn.Module is needed."
        )
    remember_run(path)
    example = example_for(network)
    sight = own_sight(
        sight,
        getattr(network, "preprocessing", None),
        f"Backbone '{name}'",
        f'let {function} set it, as in module.preprocessing = "{example}", or write '
        f"{Sight(example).named(name)}",
    )
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    return TorchFile(name, network, text, sight, device)


def _run(path: Path) -> dict[str, Any]:
    """Run a Python file as a module that finds its neighbours, and return its names."""
    spec = spec_from_file_location(f"longshot_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError("its name does not end in .py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickling look there
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return vars(module)


_ANY_SIZE = 224  # in the example for a file that takes any


class Onnx(Backbone):
    """An ONNX Runtime session; safe to run from several threads."""

    reentrant = True
    content: bytes | None = None  # of the file, where this is a copy on another machine

    def __init__(self, name: str, path: Path, sight: Sight, device: str) -> None:
        self.path, self.accelerated = path, pick_device(device).type == "cuda"
        self.shape = _input_shape(name, self.file_session)
        height, width = (side if isinstance(side, int) else None for side in self.shape[2:])
        example = f"decode|resize({height or _ANY_SIZE},{width or _ANY_SIZE})|normalize(imagenet)"
        own = self.file_session.get_modelmeta().custom_metadata_map.get("preprocessing")
        remedy = f"write {Sight(example).named(name)}, or put it into the file's metadata as 'preprocessing'"
        super().__init__(name, hash_file(path), own_sight(sight, own, f"Backbone '{name}'", remedy), device)
        made = self.transform.size
        size = (height or made[0], width or made[1])
        if size != made:
            raise UserError(
                f"Backbone '{name}' takes images of {size[0]} × {size[1]}, but preprocessing '{self.preprocessing}' "
                f"makes {made[0]} × {made[1]}; end it with resize({size[0]},{size[1]})."
            )

    @property
    def engine(self) -> str:
        """Name the runtime, with its version."""
        import onnxruntime

        return f"onnxruntime {onnxruntime.__version__}"

    def use_engine(self, engine: str | None) -> None:
        """Refuse another engine: the file is written for this one."""
        name = parse_engine(engine).name
        if name not in ("auto", "onnxruntime"):
            raise UserError(f"Backbone '{self.name}' runs in onnxruntime", "leave {engine} out")

    def portable(self, *, network: bool = True) -> Self:
        twin = super().portable(network=network)
        twin.__dict__.pop("file_session", None)
        twin.content = self.path.read_bytes()
        return twin

    @cached_property
    def file_session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # our threads run blocks side by side
        options.log_severity_level = 3
        usable = onnxruntime.get_available_providers()
        cuda = ["CUDAExecutionProvider"] if self.accelerated and "CUDAExecutionProvider" in usable else []
        source = self.content if self.content is not None else str(self.path)
        try:
            return onnxruntime.InferenceSession(source, options, providers=[*cuda, "CPUExecutionProvider"])
        except Exception as error:  # the runtime's own classes are not exported
            raise UserError(f"{self.path} is no ONNX network that runs here: {_say(error)}.") from error

    def forward(self, images: Tensor) -> Tensor:
        batch = images.contiguous().cpu().numpy()
        step = self.shape[0] if isinstance(self.shape[0], int) else len(batch)
        return torch.from_numpy(in_blocks(self._run, step, batch)).to(images.device)

    def _run(self, batch: Any) -> Any:
        name = self.file_session.get_inputs()[0].name
        try:
            outputs = self.file_session.run(None, {name: batch})
        except Exception as error:
            raise UserError(
                f"Backbone '{self.name}' failed on images {list(batch.shape)}: {_say(error)}",
                "try another {preprocessing}",
            ) from error
        arrays = [o for o in outputs if isinstance(o, np.ndarray) and o.dtype.kind == "f"]
        chosen = [o for o in arrays if o.ndim == 2] or [o for o in arrays if o.ndim == 4]
        if not chosen:
            shapes = ", ".join(str(list(np.shape(o))) for o in outputs)
            raise UserError(f"Backbone '{self.name}' gives {shapes}; an output [B, d] of floats is needed.")
        return chosen[-1].astype(np.float32)


def _say(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")  # the runtime's messages run over several lines


def _input_shape(name: str, session: Any) -> list[int | str | None]:
    inputs = session.get_inputs()
    shape = list(inputs[0].shape)
    if len(inputs) != 1 or len(shape) != 4 or inputs[0].type != "tensor(float)" or shape[1] not in (3, None):
        shown = ", ".join(f"{i.name} {i.shape} {i.type}" for i in inputs)
        raise UserError(f"Backbone '{name}' takes {shown}; one input [B, 3, H, W] of float32 is needed.")
    return shape


def open_onnx(name: str, *, device: str, sight: Sight, allow_download: bool) -> Onnx:
    """Open the network of an ONNX file."""
    path = Path(name.removeprefix("onnx:"))
    if not path.is_file():
        raise UserError(f"Backbone '{name}': there is no file {path}; give the path of an .onnx file.")
    return Onnx(name, path, sight, device)


class Npy(Precomputed):
    """The array of a file, matched with the images of a dataset."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.label, self.path = name, name, path
        keys = [file for file in (sidecar(path), _keys_file(path)) if file.is_file()]
        self.weights_hash = hash_text(hash_file(path), *(hash_file(file) for file in keys))

    def rows(self, dataset: Dataset) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        array, keys = self._read()
        if array.ndim != 2 or array.dtype.kind != "f" or array.shape[1] == 0:
            raise UserError(f"{self.path} holds {describe(array)}; images × dimensions of floats is needed.")
        if keys is None:
            if len(array) != len(dataset):
                raise UserError(
                    f"{self.path} has {count(len(array), 'row')}, dataset '{dataset.name}' has "
                    f"{count(len(dataset), 'image')}; give one row per image in the dataset's order, or keys "
                    f"in {_keys_file(self.path).name}."
                )
            return array, None
        if len(keys) != len(array):
            raise UserError(
                f"{self.path} has {len(array):,} rows but {len(keys):,} keys; give one key a row."
            )
        rows = pc.index_in(dataset.keys, value_set=pa.array(keys, pa.string()))
        if rows.null_count:
            missing = pc.filter(dataset.keys, pc.is_null(rows)).to_pylist()
            raise UserError(
                f"{self.path} lacks embeddings of {len(missing):,} of the {len(dataset):,} images of dataset "
                f"'{dataset.name}' ({first(missing)}); embed those as well."
            )
        return array, rows.to_numpy(zero_copy_only=False).astype(np.int64)

    def _read(self) -> tuple[NDArray[Any], list[str] | None]:
        try:
            loaded = np.load(self.path, mmap_mode="r", allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded, self._keys_beside()
            if "features" not in loaded:
                raise UserError(
                    f"{self.path} holds {', '.join(loaded.files) or 'nothing'}; 'features' is needed."
                )
            return loaded["features"], [str(k) for k in loaded["keys"]] if "keys" in loaded else None
        except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise UserError(
                f"{self.path} cannot be read ({load_problem(error)}): it is truncated, or no .npy or .npz of floats; "
                f"write it again with np.save."
            ) from error

    def _keys_beside(self) -> list[str] | None:
        text = _keys_file(self.path)
        if text.is_file():
            return text.read_text(encoding="utf-8").splitlines()
        if not sidecar(self.path).is_file():
            return None
        meta = json.loads(sidecar(self.path).read_text(encoding="utf-8"))
        if not isinstance(meta, dict):
            return None
        if "checksum" in meta or "sums" in meta:  # written by Longshot: checked, and an error when damaged
            return [str(key) for key in Features.load(self.path, check=False).keys.to_pylist()]
        return [str(key) for key in meta["keys"]] if isinstance(meta.get("keys"), list) else None


def open_npy(name: str, *, device: str, sight: Sight, allow_download: bool) -> Npy:
    """Open the embeddings of a file; no image is read, so a preprocessing string is refused."""
    path = Path(name.removeprefix("npy:"))
    if not path.is_file():
        raise UserError(f"Backbone '{name}': there is no file {path}; give a .npy or .npz of embeddings.")
    vectors = Npy(name, path)
    if sight.given:
        vectors.use_sight(sight)
    return vectors


def _keys_file(path: Path) -> Path:
    return path.with_suffix(".keys.txt")


class Checkpoint(ModuleBackbone):
    """A saved network of Longshot's own kinds."""

    reentrant = True
    channels_last = True

    def __init__(self, name: str, path: Path, architecture: str, sight: Sight, device: str) -> None:
        super().__init__(name, hash_file(path), sight, device)
        self.path, self.architecture = path, architecture

    def build(self) -> nn.Module:
        return load_checkpoint(self.path)[0]

    def network(self) -> Network:
        """Return the network with what was learned beside it."""
        self.prepare()
        assert isinstance(self.module, Network)
        return self.module


class ForeignCheckpoint(Checkpoint):
    """A saved network that came from elsewhere: whether threads may share it is not known."""

    reentrant = False
    channels_last = False


def open_checkpoint(name: str, *, device: str, sight: Sight, allow_download: bool) -> Checkpoint:
    """Open a saved network: its sidecar is read at once, its weights on first use."""
    path = weights_file(name)
    story = read_weights_sidecar(path)
    kind = Checkpoint if is_own_network(str(story["network"])) else ForeignCheckpoint
    architecture = f"{story['network']} {story['size']}"
    return kind(name, path, architecture, sight.of(str(story["preprocessing"])), device)


class FileWeights(Checkpoint):
    """A native network and a file; built at once, so that a wrong file is told before anything runs."""

    def __init__(self, name: str, file: Path, network: Network, sight: Sight, device: str) -> None:
        super().__init__(name, file, f"{network.call} {list(network.size)}", sight, device)
        self.made = network

    def build(self) -> nn.Module:
        return self.made


def open_weights_file(name: str, *, device: str, sight: Sight, allow_download: bool) -> FileWeights:
    """Open a network with the weights of a file, all of them in place."""
    kind, settings = parse_call(quote_words(name))
    if "weights" not in settings:
        raise UserError(f"Backbone '{name}' names no file; write {kind}(weights=FILE).")
    file = Path(str(settings.pop("weights"))).expanduser()
    call = format_call(kind, settings)
    sight = sight.of(default_preprocessing(kind))
    network = get_network(call, size=parse_preprocessing(sight.preprocessing).size)
    try:
        fill(network, read_published(file, network), str(file))
    except UserError as error:
        raise UserError(f"Backbone '{name}': {error.fact}", error.remedy) from error
    return FileWeights(name, file, network.eval(), sight, device)


def open_trainable(call: str, size: tuple[int, int], allow_download: bool = False) -> Network:
    """Open a network that comes with weights of its own, in training mode, for images of another size than its own."""
    geometry = f"decode|resize({size[0]},{size[1]})"
    backbone = load_backbone(call, "cpu", preprocessing=geometry, allow_download=allow_download)
    if not isinstance(backbone, ModuleBackbone):
        raise UserError(f"'{call}' is no network that can be trained; choose {', '.join(network_names())}.")
    network = backbone.network()
    with torch.no_grad():
        width = int(network(torch.zeros(1, 3, *size)).shape[1])
    if width != network.dim:  # it flattens its maps, which are larger or smaller now
        raise UserError(
            f"Network '{call}' was built for images of {network.size[0]} × {network.size[1]} and gives {width} numbers "
            f"instead of {network.dim} at {size[0]} × {size[1]}; resize the images to its own size."
        )
    network.size = size
    return network.requires_grad_(True).train()
