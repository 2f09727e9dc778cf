"""The command line: one command per verb.

Importing this package imports neither torch nor scikit-learn nor numpy, so that `krepes --help` answers at once;
every command imports what it needs when it runs.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The `krepes` program."""
    try:
        from krepes.cli.app import app

        app()
    except KeyboardInterrupt:  # before a command has begun
        sys.exit(130)
