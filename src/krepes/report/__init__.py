"""A fitted model as one HTML file: a map of the rows, and for each of them the real examples it is made of."""

from krepes.report.advice import Advice
from krepes.report.machine_page import write_machine_page
from krepes.report.notebook import WrittenReport
from krepes.report.writing import write_report

__all__ = ["Advice", "WrittenReport", "write_machine_page", "write_report"]
