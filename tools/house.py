"""How the house stands, in numbers: the walk of a row, bare Any, import cycles, size.

    python tools/house.py [SRC ...]            # by default the src folder beside this file

For each source folder (give two to compare them):

- the walk of one row from a Parquet path to coefficients: files of krepes that are entered between the call of
  `KernelEmbedding.fit` and its return, and crossings, the calls from one file of krepes into another; how many of them
  are between files of the trunk, those that are not a kernel, a loss, a view, a rule, a source, a column of a table or
  a piece of arithmetic; how often the path is opened and the loss resolved, and how many attributes of the estimator
  are set by code that is not the estimator's;
- parameters and results annotated `Any` (or an alias of it), outside data arguments; `model: Any`;
- import cycles, imports inside functions counted, those for type checkers alone not;
- statements in the syntax trees.
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
    *("fit_rows", "fit_labels", "table", "on"),
}

WALK = """
import sys, tempfile, os, json, warnings
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
warnings.simplefilter("ignore")
import krepes
from krepes import KernelEmbedding
from krepes.kernels import Gaussian
root = os.path.dirname(krepes.__file__) + os.sep
path = os.path.join(tempfile.mkdtemp(), "table.parquet")
rng = np.random.default_rng(0)
pq.write_table(pa.table({"a": rng.normal(size=64), "b": rng.normal(size=64), "c": ["u", "v"] * 32}), path)
KernelEmbedding(2, n_landmarks=8, random_state=0).fit(path)  # everything is imported
files, edges, crossings, trunk, before = [], set(), 0, 0, None
opened = resolved = 0
outside = set()
LEAVES = ("kernels", "losses", "views", "landmarks", "networks", "sources", "solvers/closed_form", "base")
LEAF_FILES = ("components.py", "linalg.py", "progress.py", "files.py", "model_file.py", "nystrom.py", "moments.py",
              "landmarks/nystrom.py", "moments/moments.py", "moments/outer_sum.py", "solvers/solver.py")
TABLES = "preprocessing/"  # what encodes tables is a leaf; what prepares the input is not
KEPT = ("preprocessing/input_space.py", "preprocessing/preparing.py", "preprocessing/input_record.py")
def file_of(frame):
    name = frame.f_code.co_filename
    return name[len(root):].replace(os.sep, "/") if name.startswith(root) else None
def is_trunk(file):
    leaf = file.startswith(LEAVES) or file in LEAF_FILES
    return not leaf and (not file.startswith(TABLES) or file in KEPT)
def trace(frame, event, argument):
    global crossings, before, opened, resolved, trunk
    if event != "call":
        return
    here, back = file_of(frame), frame.f_back
    while back is not None and file_of(back) is None:
        back = back.f_back
    there = file_of(back) if back is not None else None
    name = frame.f_code.co_name
    if here is None or name.startswith("<"):
        return
    opened += name == "_open_path"
    resolved += name == "as_loss"
    if here not in files:
        files.append(here)
    if there is not None and there != here:
        crossings += 1
        edges.add((there, here))
        trunk += is_trunk(there) and is_trunk(here)
    if before is None and here.startswith("kernels") and name in ("__call__", "checked", "against_rows"):
        before = {"files": len(files), "crossings": crossings, "trunk": trunk,
                  "trunk_files": [file for file in files if is_trunk(file)]}
def noted(self, name, value):
    caller = file_of(sys._getframe(1))
    if caller is not None and caller not in ("embedding.py", "one_pass.py", "preprocessing/input_record.py"):
        outside.add(name)
    object.__setattr__(self, name, value)
model = KernelEmbedding(2, n_landmarks=8, random_state=0)
KernelEmbedding.__setattr__ = noted
sys.setprofile(trace)
model.fit(path)
sys.setprofile(None)
print(json.dumps({"files": len(files), "crossings": crossings, "trunk": trunk, "before": before, "opened": opened,
                  "trunk_files": [file for file in files if is_trunk(file)], "resolved": resolved,
                  "outside": sorted(outside)}))
"""


def walk(src: Path) -> dict:
    """Files and crossings of one fit; read in a process of its own, which imports that folder's krepes."""
    run = subprocess.run(
        [sys.executable, "-c", WALK], env={"PYTHONPATH": str(src), "PATH": ""}, capture_output=True, text=True
    )
    if run.returncode:
        raise SystemExit(run.stderr)
    return json.loads(run.stdout)


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


def main() -> None:
    sys.setrecursionlimit(10_000)
    folders = [Path(given).resolve() for given in sys.argv[1:]] or [
        Path(__file__).resolve().parents[1] / "src"
    ]
    for src in folders:
        modules = trees(src)
        counts, models = bare_any(modules)
        path = walk(src)
        before = path["before"]
        statements = sum(isinstance(node, ast.stmt) for tree in modules.values() for node in ast.walk(tree))
        print(f"{src}")
        print(f"  to the first kernel value: {before['files']} files, {before['crossings']} crossings;")
        print(
            f"    {before['trunk']} of them between the files of the trunk: {', '.join(before['trunk_files'])}"
        )
        print(
            f"  to the coefficients: {path['files']} files, {path['crossings']} crossings, {path['trunk']} in the trunk"
        )
        print(f"  the path is opened {path['opened']} times, the loss resolved {path['resolved']} times,")
        print(f"    attributes set on the estimator from elsewhere: {len(path['outside'])}")
        print(f"  model: Any: {models};  bare Any outside data arguments: {sum(counts.values())}")
        print(f"    most in {', '.join(f'{name} {n}' for name, n in counts.most_common(12))}")
        print(f"  import cycles: {len(cycles(modules))} {cycles(modules) or ''}")
        print(f"  statements: {statements:,} in {len(modules)} modules")


if __name__ == "__main__":
    main()
