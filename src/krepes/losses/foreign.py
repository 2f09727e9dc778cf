"""The place of a user's loss class in a model file, which holds no code."""

from __future__ import annotations

from krepes.losses.base import Batch, Loss, Terms


class ForeignLoss(Loss):
    """A loss that a saved model was trained with and that krepes does not define.

    A loaded model transforms as before; to fit it again, give it a loss.

    Parameters
    ----------
    description : str
        Its class and parameters, in words.
    views_needed : int, default=2
    """

    def __init__(self, description: str = "", views_needed: int = 2):
        self.description = description
        self.views_needed = views_needed  # type: ignore[misc]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # scikit-learn's name
        return f"<the loss {self.description}, not in the file>"

    def terms(self, batch: Batch) -> Terms:
        raise ValueError(
            f"This model was trained with {self.description}, a class that a model file cannot hold. "
            "Set the loss before fitting again: model.set_params(loss=...)."
        )
