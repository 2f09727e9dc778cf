"""How the house stands, in numbers: size, the walk of a row, classes, imports, bare Any.

    python tools/house.py [SRC ...]            # by default the src folder beside this file

For each source folder (give two to compare them):

- code lines by room, without comments, docstrings and blank lines, and their mean length;
- the walks of `tools/walk.py`: files of krepes that a fit enters, crossings between files, different crossings, and
  crossings between rooms, to the first kernel value and to the coefficients;
- classes of krepes above each public estimator;
- modules of the rows' tower that importing a room of the mathematics loads;
- parameters and results annotated `Any` (or an alias of it), outside data arguments; `model: Any`;
- import cycles; imports inside functions count, imports for type checkers alone do not.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

# Arguments that take whatever a user has: arrays, frames, tensors, lists, paths.
DATA = {
    *("X", "Y", "Z", "x", "y", "data", "positives", "negatives", "targets", "labels", "features", "rows"),
    *("candidates", "landmarks", "sample_weight", "X_unlabelled", "Z_train", "y_train", "Z_test", "y_test"),
    *("fit_rows", "fit_labels", "table", "on", "batch", "frame", "array", "values", "weight"),
    *(
        "value",
        "state",
        "packed",
        "hint",
        "origin",
    ),  # what a file holds before it is checked, and annotations, which have no type of their own
}

MATHEMATICS = ("kernels", "views", "landmarks", "moments", "losses", "solvers")
ROWS = ("sources", "preprocessing", "engines")

ABOVE = """
import json
import krepes, krepes.machines, krepes.clustering
rooms = (krepes, krepes.machines, krepes.clustering)
found = {name: getattr(room, name) for room in rooms for name in room.__all__}
models = {name: cls for name, cls in found.items() if isinstance(cls, type) and hasattr(cls, "fit")}
print(json.dumps({name: [c.__name__ for c in cls.__mro__[1:] if c.__module__.startswith("krepes")]
                  for name, cls in models.items()}))
"""


def run(src: Path, *command: str) -> str:
    """What Python prints, in a process of its own that imports that folder's krepes."""
    done = subprocess.run(
        [sys.executable, *command], env={"PYTHONPATH": str(src), "PATH": ""}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def walk(src: Path, what: str = "embedding") -> dict:
    """Files and crossings of one fit."""
    return json.loads(run(src, str(Path(__file__).parent / "walk.py"), what))


def classes_above(src: Path) -> dict[str, list[str]]:
    """The classes of krepes that every public estimator derives from."""
    return json.loads(run(src, "-c", ABOVE))


def loaded_by(src: Path, room: str) -> list[str]:
    """Modules of krepes that `import krepes.room` loads."""
    names = "[name for name in sys.modules if name.startswith('krepes')]"
    return json.loads(run(src, "-c", f"import json, sys, krepes.{room}; print(json.dumps({names}))"))


def code_lines(text: str) -> list[str]:
    """Lines that are neither blank nor comments nor part of a docstring."""
    lines = text.splitlines()
    kept = {i for i, line in enumerate(lines, 1) if line.strip() and not line.strip().startswith("#")}
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) or not node.body:
            continue
        first = node.body[0]
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            kept -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return [lines[i - 1] for i in sorted(kept)]


def sizes(src: Path) -> tuple[Counter, float]:
    """Code lines by room, and the mean length of a line."""
    by_room, characters = Counter(), 0
    for path in src.rglob("*.py"):
        lines = code_lines(path.read_text("utf-8"))
        by_room[path.relative_to(src / "krepes").parts[0]] += len(lines)
        characters += sum(len(line) for line in lines)
    return by_room, characters / by_room.total()


def trees(src: Path) -> dict[str, ast.Module]:
    """The syntax tree of every module, by its full name."""
    found = {}
    for path in sorted(src.rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text("utf-8"))
    return found


def aliases_of_any(modules: dict[str, ast.Module]) -> set[str]:
    """`Any`, and names that stand for it."""
    names = {"Any"}
    for tree in modules.values():
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == "Any":
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def bare_any(modules: dict[str, ast.Module]) -> tuple[Counter, int]:
    """Counts by module of annotations that are just Any, outside data arguments; and how many are `model: Any`."""
    names, counts, models = aliases_of_any(modules), Counter(), 0
    for module, tree in modules.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            a = node.args
            for arg in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]:
                if arg is None or not isinstance(arg.annotation, ast.Name) or arg.annotation.id not in names:
                    continue
                models += arg.arg in ("model", "estimator", "embedding")
                starred = arg in (a.vararg, a.kwarg)
                counts[module] += not starred and arg.arg not in DATA
            counts[module] += isinstance(node.returns, ast.Name) and node.returns.id in names
    return counts, models


def imports(module: str, tree: ast.Module, known: set[str]) -> set[str]:
    """Modules of krepes that a module imports, anywhere but under `if TYPE_CHECKING`."""
    package = module if any(name.startswith(module + ".") for name in known) else module.rpartition(".")[0]
    found = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        if isinstance(node, ast.ImportFrom):
            up = package.split(".")
            base = node.module or ""
            if node.level:
                base = ".".join([*up[: len(up) - node.level + 1], *([base] if base else [])])
            for name in node.names:
                full = f"{base}.{name.name}"
                found.add(full if full in known else base)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return {name for name in found if name in known and name != module}


def cycles(modules: dict[str, ast.Module]) -> list[list[str]]:
    """Groups of modules that import one another (Tarjan's algorithm)."""
    graph = {name: sorted(imports(name, tree, set(modules))) for name, tree in modules.items()}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups = []

    def connect(v: str) -> None:
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in graph[v]:
            if w not in index:
                connect(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            group = []
            while True:
                group.append(stack.pop())
                if group[-1] == v:
                    break
            if len(group) > 1:
                groups.append(sorted(group))

    for name in graph:
        if name not in index:
            connect(name)
    return groups


def show(src: Path) -> None:
    by_room, length = sizes(src)
    modules = trees(src)
    counts, models = bare_any(modules)
    print(f"{src}")
    print(f"  code lines: {by_room.total():,} in {len(modules)} modules, {length:.1f} characters on average")
    print("    " + ", ".join(f"{room} {n:,}" for room, n in by_room.most_common()))
    for what in ("embedding", "ridge"):
        path = walk(src, what)
        for end, found in (("first kernel value", path["first_value"]), ("coefficients", path)):
            print(
                f"  {what}, to the {end}: {found['files']} files, {found['crossings']:,} crossings "
                f"({found['distinct']} different, {found['between']:,} between rooms)"
            )
        print(f"    attributes set on the estimator from elsewhere: {len(path['outside'])}")
    for name, above in classes_above(src).items():
        print(f"  {name}: {len(above)} classes above it: {', '.join(above)}")
    for room in MATHEMATICS:
        loaded = loaded_by(src, room)
        rows = [name for name in loaded if name.split(".")[1:2] and name.split(".")[1] in ROWS]
        print(f"  import krepes.{room} loads {len(loaded)} modules, {len(rows)} of the rows' tower")
    print(f"  model: Any: {models};  bare Any outside data arguments: {sum(counts.values())}")
    print(f"  import cycles: {len(cycles(modules))} {cycles(modules) or ''}")


def main() -> None:
    sys.setrecursionlimit(10_000)
    beside = Path(__file__).resolve().parents[1] / "src"
    for src in [Path(given).resolve() for given in sys.argv[1:]] or [beside]:
        show(src)


if __name__ == "__main__":
    main()
