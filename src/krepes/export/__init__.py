"""Models that run without krepes: a program of plain operations, as a torch module, an ONNX file or a page."""

from krepes.export import network_formulas as network_formulas  # kernels of wide networks
from krepes.export import patch_formulas as patch_formulas  # kernels of patches
from krepes.export.kernel_formulas import ExportError
from krepes.export.model_formulas import program_of

__all__ = ["ExportError", "program_of"]
