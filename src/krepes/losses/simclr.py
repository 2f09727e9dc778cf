"""SimCLR: recognise the other view of a sample among all embeddings of the batch [simclr].

    mean over the 2b embeddings z_i of   -log  exp(cos(z_i, z_i') / tau) / sum_{k != i} exp(cos(z_i, z_k) / tau)

z_i' is the other view of the same sample (NT-Xent). It is a classification with 2b - 1 classes, so a larger batch is a
harder question: values of different batch sizes do not compare. Cost O(b^2 h), memory O(b^2).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from krepes.base.validation import check_number
from krepes.losses.batch import Batch, Logits, Terms
from krepes.losses.directions import DirectionLoss, directions


class SimCLR(DirectionLoss):
    """Contrast the two views of a sample with every other embedding of the batch.

    Parameters
    ----------
    temperature : float, default=0.5
        tau: small values look at the most similar embeddings only, large ones weigh all of them alike.

    Notes
    -----
    The mean cross-entropy of `logits`: Gauss-Newton comes with it [krepes, section 3.2, "SimCLR"].

    Examples
    --------
    Two samples, both views alike, orthogonal to one another: one right answer of cosine 1 and two wrong ones of
    cosine 0, so log(1 + 2/e) at temperature 1.

    >>> Z = torch.eye(2)
    >>> round(float(SimCLR(temperature=1.0).terms(Batch((Z, Z)))["contrast"]), 4)
    0.5514
    """

    name = "simclr"
    known_elsewhere_as = ("infonce", "info_nce", "nt_xent", "ntxent")

    def __init__(self, temperature: float = 0.5):
        self.temperature = temperature

    def terms(self, batch: Batch) -> Terms:
        return {"contrast": cross_entropy(*self.logits(batch))}

    def logits(self, batch: Batch) -> Logits:
        """Cosines over the temperature, (2b, 2b), -inf with itself; the target is the other view."""
        check_number("temperature", self.temperature, above=0)
        unit = directions(torch.cat(self.views(batch)))
        itself = torch.eye(len(unit), dtype=torch.bool, device=unit.device)
        values: Tensor = (unit @ unit.mT / self.temperature).masked_fill(itself, -torch.inf)
        targets = torch.arange(len(unit), device=unit.device).roll(len(unit) // 2)
        return Logits(values, targets)
