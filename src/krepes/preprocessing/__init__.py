"""From tables to numbers: columns standardised, imputed and one-hot encoded, once, and saved with the model."""

from .table_encoder import TableEncoder

__all__ = ["TableEncoder"]
