"""The layers of a network: record them, choose among them, and learn from several of them at once."""

from krepes.alignment.layers.recording import iter_layers, layer_names, sketch_layers

__all__ = ["iter_layers", "layer_names", "sketch_layers"]
