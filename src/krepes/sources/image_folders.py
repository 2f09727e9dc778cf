"""A folder of PNG and JPEG images as a source of (n, h, w) or (n, h, w, 3) arrays of bytes.

Files are taken in the order of their paths, below any number of subfolders; the subfolder is the label and
never a feature. If every image is grey the rows are (h, w), otherwise all become RGB. Images of different
sizes need `size`; resizing is bilinear and antialiased and does not keep proportions. Opening reads the
headers of all files (about 20,000 per second); a batch holds only its own images.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from krepes.base.rows import Rows
from krepes.sources.identity_of_files import files_identity, reading
from krepes.sources.source import IndexedSource

SUFFIXES = (".png", ".jpg", ".jpeg")
_GREY = ("1", "L", "I", "I;16", "I;16B", "I;16L")


class ImageFolderSource(IndexedSource):
    """The images below a folder.

    Parameters
    ----------
    root, files : the folder, and the files in it in order.
    height, width : the size every image is brought to.
    grey : whether rows are (h, w) instead of (h, w, 3).
    """

    kind = "images"
    by_reference = True

    def __init__(self, root: Path, files: Sequence[Path], height: int, width: int, grey: bool):
        super().__init__(files)
        self.root, self.files = root, list(files)
        self.height, self.width, self.grey = height, width, grey
        self.n_rows = len(self.files)

    def _rows(self, which: slice | np.ndarray) -> Rows:
        return self._load(self.files[which] if isinstance(which, slice) else [self.files[i] for i in which])

    @property
    def labels(self) -> np.ndarray | None:
        """Each image's subfolder, or None if all lie in the folder itself."""
        names = [file.relative_to(self.root).parent.as_posix() for file in self.files]
        names = ["" if name == "." else name for name in names]
        return np.array(names, dtype=object) if any(names) else None

    @property
    def paths(self) -> list[Path]:
        return self.files

    def identity(self) -> dict[str, object]:
        return {"size": [self.height, self.width], "grey": self.grey, **files_identity(self.files)}

    def describe(self) -> str:
        colour = "grey" if self.grey else "RGB"
        return f"image folder, {self.n_rows:,} images, {self.height} × {self.width}, {colour}"

    def _load(self, files: Sequence[Path]) -> np.ndarray:
        shape = (self.height, self.width) if self.grey else (self.height, self.width, 3)
        batch = np.empty((len(files), *shape), dtype=np.uint8)
        pixels = partial(_pixels, height=self.height, width=self.width, grey=self.grey)
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            for i, image in enumerate(pool.map(pixels, files)):
                batch[i] = image
        return batch


def open_images(
    root: Path,
    files: Sequence[Path],
    size: int | tuple[int, int] | None = None,
    progress: Callable[[int], None] | None = None,
) -> ImageFolderSource:
    """Read the headers of the images for their sizes and colours."""
    sizes: Counter[tuple[int, int]] = Counter()
    grey = True
    for i, file in enumerate(files):
        with _opened(file) as image:
            sizes[(image.height, image.width)] += 1
            grey = grey and image.mode in _GREY
        if progress is not None and i % 1000 == 999:
            progress(i + 1)
    if size is None and len(sizes) > 1:
        common = ", ".join(f"{n:,} of {h} × {w}" for (h, w), n in sizes.most_common(4))
        raise ValueError(
            f"{root}: the images differ in size ({common}{', ...' if len(sizes) > 4 else ''}; height × width). "
            "Give the size to bring them to: open_source(path, size=32), or --size 32 on the command line."
        )
    height, width = next(iter(sizes)) if size is None else _checked_size(size)
    return ImageFolderSource(root, files, height, width, grey)


def _checked_size(size: int | tuple[int, int]) -> tuple[int, int]:
    pair = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    if len(pair) != 2 or not all(isinstance(side, int | np.integer) and side > 0 for side in pair):
        raise ValueError(f"size must be a positive integer or (height, width); got {size!r}.")
    return int(pair[0]), int(pair[1])


def _pixels(file: Path, height: int, width: int, grey: bool) -> np.ndarray:
    from PIL import Image

    with _opened(file) as image:
        if image.mode.startswith("I"):
            # Pillow's own conversion of 16-bit grey cuts values off at 255 instead of scaling them.
            deep = np.asarray(image, dtype=np.int64)
            image = Image.fromarray((np.clip(deep, 0, 65535) // 257).astype(np.uint8))
        image = image.convert("L" if grey else "RGB")
        if (image.height, image.width) != (height, width):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(image)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    from PIL import Image

    with reading(f"The image {file}", file, " Repair or remove the file."), warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file, formats=("PNG", "JPEG")) as image:
            yield image
