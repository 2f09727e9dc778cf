"""A fitted model as one HTML file: a map of the rows, and for each of them the real examples it is made of."""

from krepes.report.machine_page import write_machine_page
from krepes.report.writing import write_report

__all__ = ["write_machine_page", "write_report"]
