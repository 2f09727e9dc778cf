"""Faults that tests inject: an engine that is interrupted in the middle of a pass."""

from __future__ import annotations

from typing import Any

from krepes.engines import Local


class Interrupted(Local):
    """Runs in this process in small blocks, and is interrupted once: in block `at`, counted over all its passes."""

    def __init__(self, at: int, rows_per_block: int = 16):
        super().__init__(rows_per_block)
        self.at, self.n_blocks = at, 0

    def reduce(self, accumulator: Any, reader: Any, **options: Any) -> Any:
        return super().reduce(_Counted(accumulator, self), reader, **options)


class _Counted:
    """An accumulator that counts its blocks."""

    def __init__(self, accumulator: Any, engine: Interrupted):
        self.accumulator, self.engine = accumulator, engine

    def add(self, block: Any) -> None:
        self.engine.n_blocks += 1
        if self.engine.n_blocks == self.engine.at:
            raise KeyboardInterrupt
        self.accumulator.add(block)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.accumulator, name)
