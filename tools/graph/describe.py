# SPDX-License-Identifier: Apache-2.0
"""What one op computes and moves, from its type and shapes: estimates for the roofline."""

import math

import tensorflow as tf

# Ops that hand a reference on, decide or keep books: one thread, hardly any work.
BOOKKEEPING = {
    "Arg", "_Arg", "_Retval", "Const", "NoOp", "Identity", "IdentityN", "VarHandleOp", "ReadVariableOp",
    "Placeholder", "Reshape", "ExpandDims", "Squeeze", "Shape", "ShapeN", "Size", "Rank", "Enter", "Exit",
    "Merge", "Switch", "NextIteration", "LoopCond", "Less", "LogicalAnd", "StopGradient",
    "TensorListReserve", "TensorListSetItem", "TensorListGetItem", "TensorListFromTensor",
    "TensorListPushBack", "TensorListPopBack", "TensorListElementShape", "TensorListLength",
    "EmptyTensorList", "_Send", "_Recv", "_HostSend", "_HostRecv", "BroadcastGradientArgs", "ConcatOffset",
}  # fmt: skip
COSTLY = {"Exp", "Tanh", "Sigmoid", "Log", "Pow", "Rsqrt", "Sqrt", "TanhGrad", "SigmoidGrad", "Softmax"}
NAMES = {"float32": "float", "float64": "double"}  # as TensorFlow prints them
REFERENCES = {"resource", "variant", "string"}

Shape = tuple[int, ...]


class Tensor:
    """Shape and type of one input or output."""

    def __init__(self, description) -> None:
        self.kind = tf.as_dtype(description.dtype)
        self.shape: Shape = tuple(int(d.size) for d in description.shape.dim)
        self.elements = math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the elements; none of what is only a reference."""
        return 0 if self.kind.name in REFERENCES else self.elements * self.kind.size

    def text(self) -> str:
        """As in corun's report: float[20,200]."""
        name = NAMES.get(self.kind.name, self.kind.name)
        return f"{name}[{','.join(map(str, self.shape))}]"


def base_type(op_type: str) -> str:
    """Conv2D for _MklNativeConv2DWithBias and the like."""
    for known in ("Conv2DBackpropFilter", "Conv2DBackpropInput", "Conv2D", "MatMul"):
        if known in op_type and "Depthwise" not in op_type:
            return known
    return op_type.removeprefix("_MklNative").removeprefix("_Mkl")


def convolution(kind: str, inputs: list[Tensor], outputs: list[Tensor]) -> tuple[float, int]:
    """Flops and pieces (N x rows of what is made, or blocks of a filter's gradient); NHWC, HWIO."""
    images = [t for t in inputs if len(t.shape) == 4]
    made = outputs[0]
    if kind == "Conv2D":
        height, width, depth, _ = images[1].shape
        return 2.0 * made.elements * height * width * depth, made.shape[0] * made.shape[1]
    if kind == "Conv2DBackpropInput":
        filters, gradient = images[0], images[1]
        height, width, depth, _ = filters.shape
        return 2.0 * gradient.elements * height * width * depth, made.shape[0] * made.shape[1]
    height, width, depth, _ = made.shape
    gradient = images[-1]
    blocks = height * width * math.ceil(depth / 16) * math.ceil(made.shape[3] / 16)
    return 2.0 * gradient.elements * height * width * depth, blocks


def work(op_type: str, attributes: dict, inputs: list[Tensor], outputs: list[Tensor]) -> dict:
    """flops, bytes (touched once each) and parts (equal pieces that threads can take)."""
    moved = sum(t.bytes for t in inputs) + sum(t.bytes for t in outputs)
    if op_type in BOOKKEEPING or not moved:
        return {"flops": 0, "bytes": 0, "parts": 1}
    kind = base_type(op_type)
    numbers = max([t.elements for t in outputs] + [t.elements for t in inputs])
    if kind.startswith("Conv2D") and len(outputs[0].shape) == 4:
        flops, parts = convolution(kind, inputs, outputs)
    elif kind == "MatMul":
        left, made = inputs[0], outputs[0]
        transposed = attributes.get("transpose_a")
        depth = left.shape[-2 if transposed is not None and transposed.b else -1]
        flops = 2.0 * made.elements * depth
        parts = math.ceil(made.shape[-2] / 32) * math.ceil(made.shape[-1] / 32)
        parts *= math.prod(made.shape[:-2])
    else:
        flops = numbers * (10.0 if kind in COSTLY else 1.0)
        parts = math.ceil(numbers / 4096)  # fewer would not be worth a thread
    return {"flops": int(flops), "bytes": moved, "parts": max(1, int(parts))}
