"""Novelty detection: which rows are unlike those that a machine has learned from, with p-values."""

from krepes.machines.novelty.calibration import Reading
from krepes.machines.novelty.detector import NoveltyDetector
from krepes.machines.novelty.explanation import NoveltyExplanation

__all__ = ["NoveltyDetector", "NoveltyExplanation", "Reading"]
