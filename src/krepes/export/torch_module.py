"""A program as a torch module: buffers in place of constants, differentiable in its input, exportable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from krepes.export.kernel_formulas import ExportError
from krepes.export.program import PLAIN, Program, Step
from krepes.kernels.patches.layer import PatchLayer

Run = Callable[..., Tensor]


def _root(a: Tensor) -> Tensor:
    """With slope zero at zero, the mean of both sides of a distance."""
    zero = a <= 0
    return a.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)


def _rows(index: Tensor, table: Tensor) -> Tensor:
    return table[index.squeeze(-1) if index.shape[-1] == 1 else index]


def _patches(a: Tensor, shape: list[int], side: int) -> Tensor:
    return PatchLayer(side).cut(a.unflatten(1, shape)).flatten(1, 2)


OPERATIONS: dict[str, Run] = {op: getattr(torch, op) for op in PLAIN} | {
    "min": torch.minimum,
    "max": torch.maximum,
    "equal": torch.eq,
    "sqrt": _root,
    "sum": lambda a: a.sum(-1, keepdim=True),
    "argmax": lambda a: a.argmax(-1, keepdim=True),
    "softmax": lambda a: a.softmax(-1),
    "concat": lambda *parts: torch.cat(parts, dim=-1),
    "columns": lambda a, places: a[..., places],
    "rows": _rows,
    "expand": lambda a: a.unsqueeze(1),
    "reshape": lambda a, shape: a.reshape(-1, *shape),
    "patches": _patches,
    "flatten": lambda a: a.flatten(1),
    "squeeze": lambda a: a.squeeze(-1),
    "smallest": lambda a, k: a.kthvalue(k, dim=-1, keepdim=True).values,
    "manhattan": lambda x, Y: torch.cdist(x, Y, p=1),
    "cast": lambda a, to: a.to(getattr(torch, to)),
}


class KernelModule(nn.Module):
    """One output of a fitted model as a module; `krepes` estimators give it by `as_module`.

    Its numbers are buffers: it moves with `.to(device)`, is saved by `state_dict`, and is not trained. Gradients flow
    through it into its input. At points where a kernel has a kink they are the mean of both sides. Rows come as they
    were given to `fit`: pixels in the same range, such as 0 to 255; pictures with channels last or first.
    """

    def __init__(self, program: Program, output: str):
        super().__init__()
        program = program.only([output])
        if len(program.inputs) != 1:
            raise ExportError("A module takes rows as one tensor: give encoded rows of a table.")
        for name, value in program.constants.items():
            if value.dtype == object:
                raise ExportError(f"{output!r} holds words, which torch has not: take another output.")
            self.register_buffer(name, torch.from_numpy(value.copy()))
        self.output, self.facts = output, dict(program.facts)
        self._input, self._result = program.inputs[0], program.outputs[output]
        self._steps: list[Step] = program.steps

    def forward(self, X: Tensor) -> Tensor:
        known: dict[str, Tensor] = {self._input.name: self._laid_out(X)}
        for step in self._steps:
            given = [known[name] if name in known else self.get_buffer(name) for name in step.inputs]
            known[step.output] = OPERATIONS[step.op](*given, **step.attributes)
        return known[self._result]

    def _laid_out(self, X: Tensor) -> Tensor:
        """Rows in the layout of the program; pictures may have their channels first."""
        if not isinstance(X, Tensor):
            raise TypeError(f"X is a {type(X).__name__}; a module takes a tensor, torch.as_tensor(X).")
        shape, given = tuple(self._input.shape), tuple(X.shape[1:])
        if given == shape:
            return X
        if len(shape) in (2, 3) and given == ((shape[2] if len(shape) == 3 else 1), *shape[:2]):
            return X.movedim(1, -1) if len(shape) == 3 else X[:, 0]
        raise ValueError(
            f"X has rows of shape {given}; this model was fitted on rows of shape {shape}"
            f"{', or the same with channels first' if len(shape) == 3 else ''}."
        )

    def extra_repr(self) -> str:
        facts: dict[str, Any] = self.facts
        return f"{facts['model']}, {self.output} of rows {self._input.shape}"
