"""From raw rows to the numbers that kernels compare."""

from krepes.preprocessing.channels import Normalize
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.table_encoder import TableEncoder

__all__ = ["InputSpace", "Normalize", "TableEncoder"]
