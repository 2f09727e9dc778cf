"""What happens around a command: threads, warnings as one line, the log, termination, files that must differ."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from krepes.base.storage.files import same_file
from krepes.cli.terminal import say

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
THREADS_PER_PROCESSOR = 4  # far more end in a crash of the thread libraries
_ROWS = (".parquet", ".pq", ".png", ".jpg", ".jpeg")  # files of a folder that hold its rows
_OUTPUTS = ("output", "figure", "onnx", "checkpoint", "study")  # options that name files to write


@contextmanager
def running(verbose: bool, threads: int | None, worded: Callable[[str], str]) -> Iterator[None]:
    """Do all this; `worded` adds options to messages of the library."""
    with clean_warnings(worded), log(verbose), limited_threads(threads), terminated_gently():
        yield


@contextmanager
def clean_warnings(worded: Callable[[str], str]) -> Iterator[None]:
    """Warnings as one line each, every text once."""
    seen = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = worded(" ".join(str(message).split()))
        if text not in seen:
            seen.add(text)
            say(text, prefix="Warning: ", style="bold yellow")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def log(verbose: bool) -> Iterator[None]:
    """With --verbose, what the library logs goes to standard error."""
    logger = logging.getLogger("krepes")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = logger.level
    if verbose:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def url_of(path: Path) -> str | None:
    """The URL that was given as a path, which keeps one of its slashes only; None if it was none.

    >>> url_of(Path("s3://bucket/x.parquet")), url_of(Path("file:///x.csv")), url_of(Path("x.csv"))
    ('s3://bucket/x.parquet', 'file:///x.csv', None)
    """
    found = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]+):/(.+)", path.as_posix())
    if found is None or path.exists():
        return None
    return f"{found[1]}://{'/' if found[1].lower() == 'file' else ''}{found[2]}"


def check_exists(path: Path) -> None:
    """Refuse a path that is not there before anything heavy is imported; a pattern is looked up when it is opened."""
    if url_of(path) is not None:
        return
    if not any(mark in path.name for mark in "*?[") and not path.expanduser().exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")


def check_files(given: dict[str, Any]) -> None:
    """Refuse, before any work, a file that is not there, that is written and read, or that is written twice."""
    outputs = {name: Path(given[name]) for name in _OUTPUTS if given.get(name) is not None}
    others = {name: value for name, value in given.items() if name not in _OUTPUTS}
    for value in others.values():
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path):
                check_exists(path)
    inputs = [(name, path) for name, value in others.items() for path in _files(value)]
    for name, path in outputs.items():
        for other, read in inputs:
            inside = read.is_dir() and path.resolve().is_relative_to(read.resolve())
            part = inside and path.suffix.lower() in _ROWS and path.exists()
            if same_file(path, read) or part:
                raise ValueError(
                    f"--{name} {path} is also given as {other.upper()} ({read}): it would be "
                    "overwritten. Choose another name."
                )
        for other, written in outputs.items():
            if other != name and same_file(path, written):
                raise ValueError(f"--{name} and --{other} are both {path}: give two names.")


def _files(value: object) -> Iterator[Path]:
    """The files and folders that an option names: paths, FILE.npz:ARRAY, NAME=FILE, or lists of these."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _files(part)
    elif isinstance(value, Path):
        yield value
    elif isinstance(value, str):
        whole = (value, value.partition("=")[2])
        ends = (*whole, *(text.rpartition(":")[0] for text in whole))
        yield from (Path(end) for end in ends if end and os.path.exists(end))


@contextmanager
def limited_threads(threads: int | None) -> Iterator[None]:
    """Limit the threads of torch and of numpy's BLAS."""
    if threads is None:
        yield
        return
    most = THREADS_PER_PROCESSOR * (os.cpu_count() or 1)
    if threads > most:
        raise ValueError(
            f"--threads {threads}: this machine has {os.cpu_count()} processors; expected at most {most}. More threads "
            "than processors do not make it faster."
        )
    if "numpy" not in sys.modules:  # libraries that start now read these
        os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def terminated_gently(ends: type[BaseException] = SystemExit) -> Iterator[None]:
    """A request to terminate removes temporary files, as Ctrl-C does; it `ends` what is done by this exception."""

    def stop(*_: Any) -> None:
        raise ends(128 + signal.SIGTERM)

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
