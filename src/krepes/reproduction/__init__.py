"""Published ablations, run again: the paper's table beside ours. Adding one is a file here and a line below."""

from krepes.reproduction.cells import Cell, Run, Size, Table
from krepes.reproduction.initialization import INITIALIZATION
from krepes.reproduction.landmark_rules import LANDMARK_RULES
from krepes.reproduction.preconditioning import PRECONDITIONING
from krepes.reproduction.running import run_table
from krepes.reproduction.scalability import SCALABILITY

TABLES: dict[str, Table] = {
    table.name: table for table in (SCALABILITY, PRECONDITIONING, INITIALIZATION, LANDMARK_RULES)
}

__all__ = ["TABLES", "Cell", "Run", "Size", "Table", "run_table"]
