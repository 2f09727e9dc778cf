"""Images as thumbnails in a few large sheets: one picture of a thousand tiles is smaller than a thousand pictures.

PNG where that is small enough, else JPEG, else smaller tiles: the first choice that stays within the budget. Where
tiles would become too small, reconstructed rows are left out.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL import Image

SIDE = 32  # tiles per row and column of a sheet
BUDGET = 3_600_000  # bytes, for 5,000 rows: 4.8 MB of the page
CHOICES = (  # pixels, JPEG quality (None is PNG)
    (64, None), (64, 85), (48, 80), (32, 75), (28, 65), (24, 60), (20, 50), (16, 40),
)  # fmt: skip
SMALL = 28  # pixels: before tiles are smaller, reconstructed rows are left out
BLOCK = 8  # pixels of a JPEG block: tiles are whole blocks, so that none shines into the next


@dataclass(frozen=True)
class Thumbnails:
    """Sheets of tiles, row after row: the rows, the landmarks, then the reconstructed rows if `rebuilt`.

    Attributes
    ----------
    sheets : list of str
        Data addresses of the pictures.
    width, height : int
        The size of a tile.
    pitch_x, pitch_y : int
        From one tile to the next.
    rebuilt : bool
        Whether there are reconstructed rows.
    per_row, per_sheet : int
        Tiles.
    """

    sheets: list[str]
    width: int
    height: int
    pitch_x: int
    pitch_y: int
    rebuilt: bool = False
    per_row: int = SIDE
    per_sheet: int = SIDE * SIDE


def thumbnails(
    batches: Iterable[np.ndarray], landmarks: np.ndarray, rebuilt: np.ndarray | None = None
) -> Thumbnails:
    """Tiles of images (b, h, w[, c]) in the same units: of the batches, the landmarks and the rebuilt rows."""
    parts = [_small(_channels(batch)) for batch in batches]
    n_rows = sum(len(part) for part in parts)
    parts += [_small(_channels(images)) for images in (landmarks, rebuilt) if images is not None]
    pixels = _bytes(parts)
    budget = BUDGET * max(1.0, n_rows / 5000)
    n_real = n_rows + len(landmarks)
    tried = [(pixels, *choice, budget) for choice in CHOICES if choice[0] >= SMALL]
    tried += [(pixels[:n_real], *choice, budget) for choice in CHOICES[1:]]
    tried += [(pixels[:n_real], *CHOICES[-1], np.inf)]
    found = (_sheets(*each) for each in tried)
    return next(
        replace(sheets, rebuilt=len(each[0]) > n_real)
        for each, sheets in zip(tried, found)
        if sheets is not None
    )


def _channels(images: np.ndarray) -> np.ndarray:
    """(b, h, w, 1 or 3): alpha is dropped, other numbers of channels are averaged."""
    if images.ndim == 3:
        return images[..., None]
    if images.shape[3] == 4:
        return images[..., :3]
    return images if images.shape[3] in (1, 3) else images.mean(3, keepdims=True)


def _small(images: np.ndarray) -> np.ndarray:
    """At most CHOICES[0] pixels on the longer side, by averaging whole blocks first, so that memory stays small."""
    factor = max(images.shape[1:3]) // CHOICES[0][0]
    if factor <= 1:
        return images
    height, width = (side // factor * factor for side in images.shape[1:3])
    cut = images[:, :height, :width].astype(np.float32)
    blocks = cut.reshape(len(cut), height // factor, factor, width // factor, factor, -1)
    return blocks.mean((2, 4))


def _bytes(parts: list[np.ndarray]) -> np.ndarray:
    """Pixels 0 .. 255: bytes as they are, [0, 1] times 255, everything else by its range."""
    integers = parts[0].dtype.kind in "iu" or float(max(part.max() for part in parts)) > 1.0
    low = min(0.0, *(float(part.min()) for part in parts))
    high = max(float(part.max()) for part in parts)
    if parts[0].dtype == np.uint8 and high > 1:
        high = 255.0
    elif low >= 0 and not integers:
        high = 1.0
    scale = 255.0 / ((high - low) or 1.0)
    return np.concatenate([np.clip((part - low) * scale + 0.5, 0, 255).astype(np.uint8) for part in parts])


def _sheets(pixels: np.ndarray, largest: int, quality: int | None, budget: float) -> Thumbnails | None:
    share = min(1.0, largest / max(pixels.shape[1:3]))
    height, width = (max(1, round(side * share)) for side in pixels.shape[1:3])
    step = 1 if quality is None else BLOCK
    pitch_y, pitch_x = (-(-side // step) * step for side in (height, width))
    kind, options = (
        ("jpeg", {"quality": quality, "subsampling": 0}) if quality else ("png", {"optimize": True})
    )
    sheets, total = [], 0
    for first in range(0, len(pixels), SIDE * SIDE):
        tiles = _resized(pixels[first : first + SIDE * SIDE], height, width)
        tiles = np.pad(tiles, ((0, 0), (0, pitch_y - height), (0, pitch_x - width), (0, 0)), mode="edge")
        encoded = io.BytesIO()
        _picture(_grid(tiles)).save(encoded, kind, **options)
        total += encoded.tell()
        if total * len(pixels) / (first + len(tiles)) > budget:  # by what the first sheets need
            return None
        sheets.append(f"data:image/{kind};base64,{base64.b64encode(encoded.getvalue()).decode()}")
    return Thumbnails(sheets, width, height, pitch_x, pitch_y)


def _resized(tiles: np.ndarray, height: int, width: int) -> np.ndarray:
    if tiles.shape[1:3] == (height, width):
        return tiles
    from PIL import Image

    size = (width, height)
    images = [_picture(tile).resize(size, Image.Resampling.BOX) for tile in tiles]
    return np.stack([np.asarray(image).reshape(height, width, -1) for image in images])


def _grid(tiles: np.ndarray) -> np.ndarray:
    """Tiles side by side, SIDE in a row."""
    n, height, width, channels = tiles.shape
    n_rows = -(-n // SIDE)
    grid = np.zeros((n_rows * SIDE, height, width, channels), dtype=np.uint8)
    grid[:n] = tiles
    grid = grid.reshape(n_rows, SIDE, height, width, channels).transpose(0, 2, 1, 3, 4)
    return grid.reshape(n_rows * height, SIDE * width, channels)


def _picture(pixels: np.ndarray) -> Image.Image:
    from PIL import Image

    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
