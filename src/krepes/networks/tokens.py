"""Networks of tokens: rows are the numbers of words or symbols, (b, T) integers, which an embedding looks up.

    tokens (b, T)  ->  vectors E[token] (b, T, d)  ->  ...

Tokens are names: an average or a noisy token means nothing, and they must reach the network as whole numbers. Where
rows travel as floating-point numbers they are exact up to 2^24 in float32, and become integers again here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
# up to which all whole numbers have a place
EXACT = {torch.float64: 2**53, torch.float32: 2**24}


def embeds_tokens(module: nn.Module) -> bool:
    """Whether a network has an embedding, to which rows of tokens may go.

    >>> embeds_tokens(nn.Sequential(nn.Embedding(10, 3), nn.Flatten())), embeds_tokens(nn.Linear(2, 1))
    (True, False)
    """
    return any(isinstance(part, EMBEDDINGS) for part in module.modules())


def as_tokens(X: Tensor) -> Tensor:
    """Rows as int64; whole numbers from 0 that their dtype holds exactly, or an error.

    >>> as_tokens(torch.tensor([[3.0, 0.0]]))
    tensor([[3, 0]])
    """
    if not X.is_floating_point():
        return X.long()
    tokens = X.long()
    wrong = (tokens != X) | (tokens < 0)
    if bool(wrong.any()):
        row, *place = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"Row {row} of a batch has {X[(row, *place)].item():g} in column {place[0]}; the network expects tokens "
            "0, 1, 2, ... Use views without noise, views=Tabular(noise=0, replace=0.15), or a loss without views."
        )
    limit = EXACT.get(X.dtype, 2**8)
    if int(tokens.max()) > limit:
        raise ValueError(
            f"Token {int(tokens.max()):,} is beyond {limit:,}, the limit of {X.dtype}: use dtype='float64'."
        )
    return tokens


def looked_up(module: nn.Module, X: Tensor) -> Tensor:
    """The output of a network of tokens; a token that its embeddings do not have is an error that names it."""
    tokens = as_tokens(X)
    try:
        return module(tokens)
    except IndexError as error:
        sizes = [part.num_embeddings for part in module.modules() if isinstance(part, EMBEDDINGS)]
        raise ValueError(
            f"Token {int(tokens.max()):,} is beyond the embeddings, of {' and '.join(f'{n:,}' for n in sizes)} entries."
        ) from error
