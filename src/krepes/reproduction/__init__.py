"""Published ablations, run again: the paper's table beside ours. Adding one is a file here and a line below."""

from krepes.reproduction.cells import Cell, Size, Table
from krepes.reproduction.initialization import INITIALIZATION
from krepes.reproduction.landmark_rules import LANDMARK_RULES
from krepes.reproduction.preconditioning import PRECONDITIONING
from krepes.reproduction.running import run_table

TABLES: dict[str, Table] = {table.name: table for table in (PRECONDITIONING, INITIALIZATION, LANDMARK_RULES)}

__all__ = ["TABLES", "Cell", "Size", "Table", "run_table"]
