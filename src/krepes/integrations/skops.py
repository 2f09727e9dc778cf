"""Files of skops: pipelines that contain krepes, written and read without pickle.

    import skops.io
    from krepes.integrations.skops import trusted_types

    skops.io.dump(pipeline, "pipeline.skops")
    pipeline = skops.io.load("pipeline.skops", trusted=trusted_types())

A fitted estimator is in the file as krepes's own model file, which is checked and runs no code; what such files do not
hold, functions of your own and engines, is not in a file of skops either.
"""

from __future__ import annotations

from importlib import import_module

from krepes.base.components import Component, subclasses
from krepes.saved_models import SAVED

ROOMS = ("kernels", "landmarks", "losses", "preprocessing", "solvers", "views")


def trusted_types() -> list[str]:
    """Names of classes that a file may hold: estimators, and the parts that are their parameters, none of which
    reads files or calls a function from the file.
    """
    for room in ROOMS:
        import_module(f"krepes.{room}")
    parts = [cls for cls in subclasses(Component) if cls.name and not cls.paths]
    estimators = [getattr(import_module(room), name) for name, room in SAVED.items()]
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in [*estimators, *parts]}
    return sorted(name for name in names if name.startswith("krepes."))
