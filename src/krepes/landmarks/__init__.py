"""Landmarks: which samples stand for all of them. One file per rule; adding one is a file and a line below."""

from krepes.landmarks.kmeans_plus_plus import KMeansPlusPlus
from krepes.landmarks.landmark_selector import LandmarkSelector
from krepes.landmarks.leverage import Leverage
from krepes.landmarks.nystrom import NystromMap
from krepes.landmarks.pivoted_cholesky import PivotedCholesky
from krepes.landmarks.uniform import Uniform

__all__ = ["KMeansPlusPlus", "LandmarkSelector", "Leverage", "NystromMap", "PivotedCholesky", "Uniform"]
