"""A program as an ONNX file, opset 18 and ai.onnx.ml 2, for onnxruntime and whatever else reads it.

Every column of a table is an input of shape (n, 1) with the name of the column: double for numbers and dates, string
for words. Arrays are one input X. Metadata say what the model is: version, kind, hash, columns, classes.

L1 distances are not a matrix product, and ONNX has no operation for them. They are summed column by column, so that
nothing larger than the kernel values is held; columns of 0 and 1 are a product: |a - b| = a + b - 2 a b.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from krepes.base.storage.files import atomic_path, check_writable
from krepes.export.program import PLAIN, Program, Step

OPSET, ML_OPSET, IR_VERSION = 18, 2, 9
DIRECT = {op: op.capitalize() for op in PLAIN} | {"isnan": "IsNaN", "matmul": "MatMul"}


class OnnxGraph:
    """Nodes and constants of a program, as ONNX has them."""

    def __init__(self, program: Program):
        from onnx import TensorProto, helper, numpy_helper

        self.helper, self.numpy_helper, self.types = helper, numpy_helper, TensorProto
        self.program = program
        self.nodes: list[Any] = []
        self.constants: list[Any] = [self._tensor(name, value) for name, value in program.constants.items()]
        self.count = 0

    def _tensor(self, name: str, value: np.ndarray) -> Any:
        if value.dtype == object:
            words: Any = [str(word).encode() for word in value.ravel()]
            return self.helper.make_tensor(name, self.types.STRING, list(value.shape), words)
        return self.numpy_helper.from_array(np.ascontiguousarray(value), name)

    def _type(self, dtype: str) -> Any:
        names = {"float32": "FLOAT", "float64": "DOUBLE", "bool": "BOOL", "string": "STRING"}
        return getattr(self.types, names.get(dtype, dtype.upper()))

    def constant(self, value: np.ndarray) -> str:
        self.count += 1
        name = f"__k{self.count}"
        self.constants.append(self._tensor(name, value))
        return name

    def node(self, kind: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        if output is None:
            self.count += 1
            output = f"__n{self.count}"
        self.nodes.append(self.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def add(self, step: Step) -> None:
        """The nodes of a step."""
        inputs, out, given = list(step.inputs), step.output, step.attributes
        last = np.array([-1], dtype=np.int64)
        match step.op:
            case "asin" | "erf":  # onnxruntime has them in single precision alone
                single = self.node("Cast", inputs, to=self._type("float32"))
                found = self.node(step.op.capitalize(), [single])
                self.node("CastLike", [found, *inputs], out)
            case op if op in DIRECT:
                self.node(DIRECT[op], inputs, out)
            case "sum":
                self.node("ReduceSum", [*inputs, self.constant(last)], out, keepdims=1)
            case "argmax":
                self.node("ArgMax", inputs, out, axis=-1, keepdims=1)
            case "softmax":
                self.node("Softmax", inputs, out, axis=-1)
            case "concat":
                self.node("Concat", inputs, out, axis=-1)
            case "columns":
                places = np.array(given["places"], dtype=np.int64)
                self.node("Gather", [*inputs, self.constant(places)], out, axis=-1)
            case "rows":
                index, table = inputs
                if self._of_cells(index):
                    self.node("Gather", [table, index], out, axis=0)
                else:
                    flat = self.node("Squeeze", [index, self.constant(last)])
                    self.node("Gather", [table, flat], out, axis=0)
            case "expand":
                self.node("Unsqueeze", [*inputs, self.constant(np.array([1]))], out)
            case "squeeze":
                self.node("Squeeze", [*inputs, self.constant(last)], out)
            case "reshape":
                self.node("Reshape", [*inputs, self.constant(np.array([-1, *given["shape"]]))], out)
            case "patches":
                self._patches(inputs[0], given["shape"], given["side"], out)
            case "flatten":
                self.node("Flatten", inputs, out, axis=1)
            case "cast":
                self.node("Cast", inputs, out, to=self._type(given["to"]))
            case "code":
                self.node(
                    "LabelEncoder",
                    inputs,
                    out,
                    domain="ai.onnx.ml",
                    keys_strings=given["keys"],
                    values_int64s=given["values"],
                    default_int64=given["default"],
                )
            case "smallest":
                self._smallest(inputs[0], given["k"], out)
            case "manhattan":
                self._manhattan(inputs[0], inputs[1], out)
            case _:
                raise ValueError(f"{step.op!r} is not an operation of ONNX files.")

    def _of_cells(self, index: str) -> bool:
        """Whether whole numbers are several for every row, from a table of them."""
        made = next((step for step in self.program.steps if step.output == index), None)
        return made is not None and made.op == "rows" and self.program.constants[made.inputs[1]].ndim == 2

    def _smallest(self, a: str, k: int, out: str) -> None:
        """TopK gives the k smallest in order; the last of them is wanted."""
        self.count += 1
        found, places = f"__n{self.count}", f"__i{self.count}"
        count = self.constant(np.array([k], dtype=np.int64))
        self.nodes.append(
            self.helper.make_node("TopK", [a, count], [found, places], axis=-1, largest=0, sorted=1)
        )
        self.node("Gather", [found, self.constant(np.array([k - 1], dtype=np.int64))], out, axis=-1)

    def _patches(self, x: str, shape: list[int], side: int, out: str) -> None:
        """Rows of every window are gathered, then its columns; indices beyond an edge are reflected."""
        h, w, c = shape
        around = (side - 1) // 2, side // 2
        rows, columns = (
            sliding_window_view(np.pad(np.arange(n), around, mode="reflect"), side) for n in (h, w)
        )
        found = self.node("Reshape", [x, self.constant(np.array([-1, h, w, c]))])
        found = self.node("Gather", [found, self.constant(rows)], axis=1)  # (b, h, side, w, c)
        found = self.node("Gather", [found, self.constant(columns)], axis=3)
        found = self.node("Transpose", [found], perm=[0, 1, 3, 2, 4, 5])
        self.node("Reshape", [found, self.constant(np.array([-1, h * w, side * side * c]))], out)

    def _manhattan(self, x: str, points: str, out: str) -> None:
        Y = self.program.constants[points]
        if not self._used_twice(points):
            self.constants = [each for each in self.constants if each.name != points]
        d, scale = Y.shape[1], self._scale(x, Y.shape[1])
        binary = [] if scale is None else [j for j in self.program.binary[1] if scale[j] > 0]
        others = [j for j in range(d) if j not in binary]
        sums = []
        if binary and scale is not None:
            # |a - b| = a + b - 2 a b / s for numbers that are 0 or s
            slopes = (1 - 2 * Y[:, binary] / scale[binary]).T.astype(Y.dtype)
            part = self.node("Gather", [x, self.constant(np.array(binary, dtype=np.int64))], axis=-1)
            product = self.node("MatMul", [part, self.constant(slopes)])
            sums.append(self.node("Add", [product, self.constant(Y[None, :, binary].sum(-1))]))
        for j in others:
            column = self.node("Gather", [x, self.constant(np.array([j], dtype=np.int64))], axis=-1)
            sums.append(self.node("Abs", [self.node("Sub", [column, self.constant(Y[None, :, j])])]))
        total = sums[0]
        for each in sums[1:]:
            total = self.node("Add", [total, each])
        self.node("Identity", [total], out)

    def _scale(self, x: str, width: int) -> np.ndarray | None:
        """By what the encoded rows were multiplied to be x, (d,); None where x is something else."""
        made, scale = {step.output: step for step in self.program.steps}, np.ones(width)
        while x != self.program.binary[0]:
            step = made.get(x)
            if step is None or step.op != "mul" or step.inputs[1] not in self.program.constants:
                return None
            scale, x = scale * self.program.constants[step.inputs[1]], step.inputs[0]
        return scale

    def _used_twice(self, name: str) -> bool:
        return sum(name in step.inputs for step in self.program.steps) > 1

    def model(self) -> Any:
        """The whole file."""
        helper, program = self.helper, self.program
        for step in program.steps:
            self.add(step)
        inputs = [
            helper.make_tensor_value_info(port.name, self._type(port.dtype), ["n", *port.shape])
            for port in program.inputs
        ]
        outputs = []
        taken = {port.name for port in program.inputs}
        for name, value in program.outputs.items():
            name = f"{name}_output" if name in taken else name
            self.node("Identity", [value], name)
            outputs.append(helper.make_empty_tensor_value_info(name))
        graph = helper.make_graph(self.nodes, "krepes", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="krepes")
        model.producer_version = str(program.facts["krepes"])
        columns = [
            {
                "name": port.name,
                "type": port.dtype,
                "meaning": port.meaning,
                "levels": port.levels,
                "usual": port.levels[0] if port.levels else port.usual,
            }
            for port in program.inputs
        ]
        facts = {**program.facts, "inputs": columns, "outputs": list(program.outputs), "opset": OPSET}
        helper.set_model_props(model, {name: json.dumps(value) for name, value in facts.items()})
        return model


def write_onnx(program: Program, path: str | os.PathLike, overwrite: bool = False) -> None:
    """Write the file, which ONNX has checked. It holds rows of the data, and is for its owner only."""
    try:
        import onnx
    except ImportError:
        raise ImportError("ONNX files need the package onnx: pip install 'krepes[onnx]'.") from None
    target = check_writable(path, overwrite)
    model = onnx.shape_inference.infer_shapes(OnnxGraph(program).model())
    onnx.checker.check_model(model)
    with atomic_path(target, overwrite, private=True) as part:
        part.write_bytes(model.SerializeToString())


def description_of(path: str | os.PathLike) -> dict[str, Any]:
    """What a file says of itself."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    return {each.key: json.loads(each.value) for each in model.metadata_props}
