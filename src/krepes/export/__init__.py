"""Models that run without krepes: a program of plain operations, as a torch module or an ONNX file."""

from krepes.export.kernel_formulas import ExportError
from krepes.export.model_formulas import MAIN, program_of
from krepes.export.program import Port, Program, Step, Value

__all__ = ["MAIN", "ExportError", "Port", "Program", "Step", "Value", "program_of"]
