"""Policies as ONNX files, for robots and programs without PyTorch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pullback.core.errors import PullbackError
from pullback.core.files import whole_file
from pullback.version import __version__

if TYPE_CHECKING:
    from pullback.learn.policy import Policy

OPSET, FORMAT = 17, 8  # the first that have LayerNormalization: the older, the more programs can read it


def write_onnx(policy: Policy, path: Path) -> Path:
    """Writes the most likely action of a policy: from "observation" (rows, n) to "action" (rows, actions), float32.

    The normaliser is part of it: observations are given as the environment has them.
    """
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError:
        raise PullbackError('ONNX files need onnx: pip install "pullback[learn]"') from None
    nodes, constants = [], []

    def constant(name: str, value) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value, dtype=np.float32), name))
        return name

    def add(kind: str, *inputs: str, to: str = "", **attributes) -> str:
        to = to or f"{kind}_{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [to], **attributes))
        return to

    normaliser, network = policy.normaliser, policy.network
    scale = 1 / np.sqrt(normaliser.variance.detach().cpu().double().numpy() + normaliser.LEAST_VARIANCE)
    x = add("Sub", "observation", constant("mean", normaliser.mean.detach().cpu().numpy()))
    x = add("Mul", x, constant("scale", scale))
    x = add("Clip", x, constant("low", -normaliser.LARGEST), constant("high", normaliser.LARGEST))
    flat = network.flat.detach().cpu().split([math.prod(shape) for shape in network.shapes])
    parts = [part.view(shape)[0].numpy() for part, shape in zip(flat, network.shapes, strict=True)]
    *layers, (matrix, bias) = [parts[i : i + 4] for i in range(0, len(parts), 4)]
    for i, (w, b, gain, shift) in enumerate(layers):
        y = add("Gemm", x, constant(f"weights_{i}", w), constant(f"bias_{i}", b[0]))
        of_norm = (constant(f"gain_{i}", gain[0]), constant(f"shift_{i}", shift[0]))
        y = add("LayerNormalization", y, *of_norm, axis=-1, epsilon=1e-5)
        x = add("Mul", y, add("Sigmoid", y))  # SiLU
    # The other half of the outputs is the deviation.
    last = (constant("weights", matrix[:, : policy.actions]), constant("bias", bias[0, : policy.actions]))
    add("Tanh", add("Gemm", x, *last), to="action")

    sizes = {"observation": policy.observations, "action": policy.actions}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", n]) for name, n in sizes.items()]
    graph = helper.make_graph(nodes, "policy", ends[:1], ends[1:], constants)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=FORMAT, producer_name="pullback",
        producer_version=__version__,
    )  # fmt: skip
    helper.set_model_props(model, {"env": policy.env})
    checker.check_model(model)
    with whole_file(path) as partial:
        partial.write_bytes(model.SerializeToString())
    return path
