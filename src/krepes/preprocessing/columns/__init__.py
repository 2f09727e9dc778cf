"""The columns of a table, a class for each kind: what it has learned, its cells as numbers, and numbers as cells."""

from krepes.preprocessing.columns.column import Category, Column, LeftOut, Text
from krepes.preprocessing.columns.date import Date
from krepes.preprocessing.columns.number import Number, Standardised, YesNo

__all__ = ["Category", "Column", "Date", "LeftOut", "Number", "Standardised", "Text", "YesNo"]
