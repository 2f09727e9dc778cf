"""`--json`: one object on standard output, with the numbers that the tables round; and exit codes."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from command_line import run
from krepes import load
from krepes.alignment import cka, prune_ensemble
from krepes.cli.app import app
from krepes.cli.command import EXIT_CODES
from krepes.explain.examples import examples

rng = np.random.default_rng(0)
SMALL = ["--n-landmarks", "30", "--n-components", "3"]


def asked(*arguments: object) -> dict:
    """What a command prints with --json, which is one object and nothing else."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("json")
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4)) + 2 * y[:, None]
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        id=[f"r{i}" for i in range(90)], kind=np.array(list("uvw"))[y]
    )
    frame.to_csv(folder / "t.csv", index=False)
    np.savez(folder / "x.npz", X=X, y=y, Z=X[:, :2])
    run("fit", folder / "t.csv", "-o", folder / "m.krepes", "--label", "kind", "--exclude", "id", *SMALL)
    return folder


@pytest.fixture(autouse=True)
def there(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_fit_and_info_tell_the_same_of_a_model(folder):
    fitted = asked("fit", "t.csv", "-o", "n.krepes", "--label", "kind", "--exclude", "id", *SMALL)
    told = asked("info", "n.krepes")
    model = load("n.krepes")
    shared = ("rows", "kernel", "landmarks", "loss", "components", "columns", "bytes")
    assert {key: fitted[key] for key in shared} == {key: told[key] for key in shared}
    assert told["kernel"]["parameters"]["lengthscale"] == model.kernel_.lengthscale
    assert told["loss"]["terms"] == model.history_[-1]
    roles = {column["column"]: column for column in told["columns"]}
    assert [roles[name]["role"] for name in ("a", "id", "kind")] == ["numeric", "excluded", "label"]
    assert roles["a"]["mean"] == model.input_space_.encoder.columns_[0].mean


def test_evaluate(folder):
    found = asked("evaluate", "m.krepes", "t.csv", "--repeats", 2, "-o", "e.json", "--force")
    assert found["results"] == json.loads((folder / "e.json").read_text())
    assert found["classes"] == ["u", "v", "w"]


def test_transform_and_cluster_tell_what_they_wrote():
    found = asked("transform", "m.krepes", "t.csv", "-o", "z.parquet", "--keep", "id", "--force")
    assert (found["rows"], found["components"], found["kept"]) == (90, 3, ["id"])
    found = asked("cluster", "t.csv", "-k", 3, "-o", "c.csv", "--label", "kind", "--keep", "id", "--force")
    clusters = pd.read_csv("c.csv")["cluster"]
    assert found["rows_in_each"] == np.bincount(clusters).tolist()
    assert 0 <= found["agreement_with_labels"]["nmi"] <= 1


def test_explain(folder):
    found = asked("explain", "m.krepes", "t.csv", "--sample", 5, "--top", 2, "-o", "p.html", "--force")
    top = examples(load("m.krepes"), pd.read_csv("t.csv").iloc[[5]], 2)
    assert [row["row"] for row in found["landmarks"]] == top.rows[0].tolist()
    shares = [row["share"] for row in found["landmarks"]]
    assert shares == pytest.approx(top.shares[0].tolist(), rel=1e-5)
    assert sum(shares) + found["unexplained"] == pytest.approx(1)
    assert found["bytes"] == (folder / "p.html").stat().st_size
    along = asked("explain", "m.krepes", "t.csv", "--sample", 5, "--class", "v")["parts"]
    parts = sum(row["adds"] for row in along["landmarks"])
    assert parts + along["unexplained"] + along["constant"] == pytest.approx(along["sum"])


def test_explanations_are_checked():
    found = asked("explain", "m.krepes", "t.csv", "--check", "--label", "kind")
    rows = {row["method"]: row for row in found["faithfulness"]}
    assert rows["kernel value"]["random_weights"] == 1
    assert 0 <= rows["explain"]["deletion"] <= 1
    assert found["default"] in rows


def test_tune():
    pytest.importorskip("optuna")
    found = asked("tune", "x.npz", *SMALL, "--trials", 2)
    assert [trial["number"] for trial in found["trials"]] == [1, 2]
    assert found["next"].startswith("krepes fit x.npz")


def test_align_rank_and_prune(folder):
    X, y = np.load("x.npz")["X"], np.load("x.npz")["y"]
    found = asked("align", "x.npz", "x.npz:Z")
    assert found["cka"][0][1] == pytest.approx(cka(X, X[:, :2]), rel=1e-9)
    tested = asked("align", "x.npz", "x.npz:Z", "--permutations", 9)
    assert tested["test"]["n_permutations"] == 9
    ranked = asked("rank-models", "x.npz", "x.npz:Z", "--labels", "x.npz:y")
    assert {row["model"] for row in ranked["models"]} == {"x.npz", "x.npz:Z"}
    pruned = asked("prune", "x.npz", "--label", "y", "--task", "regression")
    expected = prune_ensemble(X, y=y, task="regression")
    assert [row["weight"] for row in pruned["members"]] == pytest.approx(
        [row.weight for row in expected.table_]
    )
    assert pruned["score"] == pytest.approx(expected.score_)


@pytest.mark.full  # test_demo.py runs it once for all other checks
def test_demo(folder):
    found = asked("demo", "-o", folder / "demo")
    assert set(found["compared"]) == {"raw pixels", "kernel PCA", "krepes"}
    assert (folder / "demo" / "digits.krepes").exists()


def test_every_command_has_it_and_warnings_stay_on_standard_error():
    for name in [command.callback.__name__.replace("_", "-") for command in app.registered_commands]:
        assert "--json" in run(name, "--help"), name
    result = CliRunner().invoke(app, ["fit", "t.csv", "-o", "w.krepes", *SMALL, "--json"])
    assert json.loads(result.stdout)["rows"] == 90
    failed = CliRunner().invoke(app, ["fit", "t.csv", "-o", "w.krepes", *SMALL, "--json"])
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert "(--force)" in failed.stderr


def test_numbers_that_are_not_finite_are_null(folder):
    np.save(folder / "ones.npy", np.ones((90, 2)))
    found = asked("align", "x.npz", "ones.npy", "--sketch", 64)
    assert found["cka"][1][1] is None


def test_the_exit_codes_are_documented(request):
    codes = set(re.findall(r"\b(\d+) \w", EXIT_CODES))
    assert codes == {"0", "1", "2", "130", "143"}
    assert "Exit codes" in run("--help")
    page = (request.config.rootpath / "docs" / "command-line.md").read_text()
    assert all(f"| {code} |" in page for code in codes)
