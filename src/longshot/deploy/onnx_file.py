"""One ONNX file from decoded pixels to probabilities: Pillow's resize in integers, the network, the head.

Pillow resizes bytes by weights of 22 bits, columns first, and rounds after each pass. The file does the same sums in
double precision, which holds them exactly, so that its pixels are Pillow's to the last bit. A resize to two given sides
is the exception: Pillow may take rows first where a photo is much distorted, and then some bytes differ by one.
"""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from longshot.base import OutputKind, Preprocessing, UserError, claim_output, delivered, is_screen
from longshot.deploy.classifier import Classifier, open_model

if TYPE_CHECKING:
    from collections.abc import Callable

_OPSET = 17
_COMPARED, _TOLERANCE = 20, 1e-4  # references on which an exported head is compared, and how closely
_BITS = 22  # of Pillow's weights
_REACH = {"bilinear": 1.0, "bicubic": 2.0}  # filter → pixels on each side


def _is_own(path: Path) -> bool:
    return b"longshot-classifier" in path.read_bytes()


ONNX = OutputKind("classifier", {".onnx": _is_own}, bare=False)


def export(model: Classifier | str | Path, *, onnx: str | Path, force: bool = False) -> Path:
    """Write one ONNX file from decoded pixels to probabilities, which ONNX Runtime alone runs.

    Its input ``pixels`` is one photo, upright, [H, W, 3] of bytes, of any size. Its outputs are ``probabilities`` [C],
    ``similarity`` to the nearest class, and ``known``: false where the photo is none of the classes. The names of the
    classes stand in the file's metadata under ``classes``, as JSON.

    Parameters
    ----------
    model : Classifier, str or Path
        What ``fit`` gave, or its folder.
    onnx : file
        Where to.
    force : bool
        Replace what is there, even if Longshot did not write it.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> model = longshot.fit("toybox", backbone="efficientnet-lite0")
    >>> export(model, onnx="toys.onnx").name
    'toys.onnx'
    """
    claim_output(onnx, ONNX, force=force, name="onnx")
    classifier = open_model(model)
    if not classifier.network.onnx:
        raise UserError(
            f"The model holds no network, only the name of '{classifier.facts.network.name}', so it cannot be one file",
            "fit again with a {backbone} that can be exported, such as efficientnet-lite0",
        )
    content = classifier_graph(classifier)
    with delivered(onnx) as temporary:
        temporary.write_bytes(content)
    return Path("-") if is_screen(onnx) else Path(onnx)


def classifier_graph(model: Classifier) -> bytes:
    """Return the file's bytes."""
    from onnx import compose, helper, load_from_string

    transform = model.network.transform
    photo = torch.zeros(8, 9, 3, dtype=torch.uint8)
    vectors = torch.zeros(1, model.head.support.shape[1])
    front = _graph(Geometry(transform), photo, ["pixels"], ["sized"], {"pixels": {0: "height", 1: "width"}})
    back = _graph(_Answer(model), vectors, ["vectors"], ["probabilities", "similarity", "known"], {})
    _compare(back, model)
    middle = load_from_string(model.network.onnx)
    join: Callable[..., Any] = compose.merge_models
    version = max(part.ir_version for part in (front, middle, back))
    for part in (front, middle, back):
        part.ir_version = version
    front, back = (
        compose.add_prefix(part, prefix, rename_inputs=False, rename_outputs=False)
        for part, prefix in ((front, "resize/"), (back, "head/"))
    )
    joined = join(front, compose.add_prefix(middle, "network/"), io_map=[("sized", "network/pixels")])
    joined = join(joined, back, io_map=[("network/vectors", "vectors")])
    helper.set_model_props(
        joined,
        {
            "longshot-classifier": model.facts.longshot,
            "classes": json.dumps(list(model.classes)),
            "version": str(model.facts.version),
            "threshold": json.dumps(model.facts.threshold),
        },
    )
    content: bytes = joined.SerializeToString()
    return content


@torch.no_grad()
def _compare(graph: Any, model: Classifier) -> None:
    """Raise UserError where an exported head gives other probabilities than the head itself, for its own support."""
    import onnxruntime

    run = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"]).run
    for vectors in model.head.support[:_COMPARED, None]:
        apart = abs(run(None, {"vectors": vectors.numpy()})[0] - model.head(vectors)[0][0].numpy()).max()
        if not apart <= _TOLERANCE:
            raise UserError(
                f"What {model.facts.method} learned has no closed form, and written as ONNX it is {apart:.1e} away",
                "fit again with another {method}, such as ridge",
            )


class _Answer(nn.Module):
    """Vectors [1, d] → probabilities [C], similarity, and whether that reaches the threshold."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.head = model.head
        threshold = model.facts.threshold
        self.register_buffer("threshold", torch.tensor(-torch.inf if threshold is None else threshold))

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        probabilities, similarity = self.head(vectors)
        return probabilities[0], similarity[0], similarity[0] >= self.threshold


class Geometry(nn.Module):
    """Bytes [H, W, 3] of any size → bytes [1, h, w, 3] as a preprocessing makes them with Pillow."""

    def __init__(self, transform: Preprocessing) -> None:
        super().__init__()
        self.size = transform.size
        steps = [step.partition("(") for step in transform.text.split("|")]
        names = [name for name, _, _ in steps if name not in ("value_range", "normalize")]
        arguments = {name: text.removesuffix(")").split(",") for name, _, text in steps}
        resize, crop = arguments.get("resize", [""]), arguments.get("central_crop", [])
        self.filter = resize[-1] if resize[-1] in _REACH else "bilinear"
        self.sides = [int(side) for side in resize if side.isdigit()]
        gray = names.index("grayscale") if "grayscale" in names else -1
        self.even, self.gray = (
            "even" in crop,
            "" if gray < 0 else "after" if "resize" in names[:gray] else "before",
        )
        shape = [name for name in names if name not in ("decode", "grayscale")]
        words = {*resize, *crop, *arguments["decode"]} - {"", "even", *_REACH}
        simple = shape in (["resize"], ["resize", "central_crop"])
        if not simple or not all(word.isdigit() for word in words):
            raise UserError(
                f"The preprocessing '{transform.text}' cannot be put into an ONNX file: it takes a resize (bilinear or "
                "bicubic), then perhaps a central_crop",
                "fit again with another {backbone}",
            )

    def forward(self, photo: Tensor) -> Tensor:
        pixels = photo.double()
        if self.gray == "before":
            pixels = _gray(pixels)
        ones = torch.ones_like(pixels[..., 0])
        rows, columns = ones[:, 0].cumsum(0) - 1, ones[0].cumsum(0) - 1  # 0, 1, 2 … as many as there are
        height, width = (
            rows[-1:] + 1,
            columns[-1:] + 1,
        )  # of one number each: scalars would be exported as float32
        if len(self.sides) == 2:
            sides = [torch.tensor([float(side)], dtype=torch.float64) for side in self.sides]
        else:
            side, short = float(self.sides[0]), torch.minimum(height, width)
            sides = [(side * each / short).floor() for each in (height, width)]
        across = self._weights(columns, width, sides[1], self.size[1])  # [w, W]
        down = self._weights(rows, height, sides[0], self.size[0])  # [h, H]
        narrow = _rounded(across @ pixels)  # [H, w, 3]
        sized = _rounded(down @ narrow.reshape(-1, self.size[1] * 3)).reshape(1, *self.size, 3)
        if len(self.sides) == 2:  # rows first where they shrink and columns do not
            low = _rounded(torch.einsum("hk,kwc->hwc", down, pixels))
            turned = (height > sides[0]) & (width < sides[1])
            sized = torch.where(turned, _rounded(across @ low), sized)
        return (_gray(sized) if self.gray == "after" else sized).to(torch.uint8)

    def _weights(self, places: Tensor, length: Tensor, target: Tensor, count: int) -> Tensor:
        """Return Pillow's weights [count, length] of the middle ``count`` of ``target`` pixels, times 2²²."""
        border = target - count
        start = (border / 2).round() if self.even else (border / 2).floor()
        scale = length / target
        wide = scale.clamp(min=1.0)
        centre = ((torch.arange(count, dtype=torch.float64) + start + 0.5) * scale)[:, None]
        reach = _REACH[self.filter] * wide
        first, last = (centre - reach + 0.5).floor().clamp(min=0.0), (centre + reach + 0.5).floor()
        apart = ((places + 0.5 - centre) / wide).abs()
        if self.filter == "bilinear":
            values = (1 - apart).clamp(min=0.0)
        else:  # Keys' cubic with a = −0.5
            near = (1.5 * apart - 2.5) * apart * apart + 1
            far = -0.5 * (((apart - 5) * apart + 8) * apart - 4)
            values = torch.where(apart < 1, near, torch.where(apart < 2, far, torch.zeros_like(apart)))
        values = torch.where((places >= first) & (places < last), values, torch.zeros_like(values))
        values = values / values.sum(1, keepdim=True) * 2.0**_BITS
        return torch.where(values < 0, (values - 0.5).ceil(), (values + 0.5).floor())


def _gray(pixels: Tensor) -> Tensor:
    """Return three equal channels by Pillow's weights of 16 bits."""
    weights = torch.tensor([[19595.0], [38470.0], [7471.0]], dtype=torch.float64)
    return ((pixels @ weights + 32768) / 65536).floor().repeat(*[1] * (pixels.ndim - 1), 3)


def _rounded(sums: Tensor) -> Tensor:
    """Return sums of bytes times weights of 22 bits as bytes."""
    return ((sums + 2.0 ** (_BITS - 1)) / 2.0**_BITS).floor().clamp(0.0, 255.0)


def _graph(
    module: nn.Module, example: Tensor, inputs: list[str], outputs: list[str], axes: dict[str, Any]
) -> Any:
    """Export a module as an ONNX model."""
    from onnx import load_from_string

    file = io.BytesIO()
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module.eval(),
                (example,),
                file,  # type: ignore[arg-type]  # an open file will do here
                dynamo=False,
                opset_version=_OPSET,
                input_names=inputs,
                output_names=outputs,
                dynamic_axes=axes,
            )
    except Exception as error:  # an exporter raises nearly anything on what it does not know
        raise UserError(
            f"What the method learned cannot be written as ONNX ({type(error).__name__})",
            "fit again with another {method}, such as ridge",
        ) from error
    return load_from_string(file.getvalue())
