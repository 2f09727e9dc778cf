"""Attribution by the truth: LDS, deletion, wrong labels and seconds of krepes and its peers, on one machine each.

    PYTHONPATH=FOLDER_OF_PEERS python benchmarks/truth.py [--rows 2000] [--queries 200] [--landmarks 500] [--data ...]

A ridge machine of `--rows` rows; predictions of rows it has not seen. 100 random halves of the rows are retrained
exactly from sums: the rank correlation of what is retrained with the sum of a method's values is its LDS, ± a standard
error over predictions. All methods see the same features (Nyström features of the machine's kernel) and the same
solution. TracIn is captum's, if it is installed; representer points, TRAK's formula and kNN-Shapley are a line each.
Wrong labels: 10 % are changed; the area under the curve of each method's score; cleanlab's self-confidence from
five-fold probabilities of a logistic regression on the same features.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from faithfulness import rows_of
from recording import record
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from torch import Tensor

from krepes.explain.expansion import all_inputs
from krepes.explain.predictions import directions_of, similarities
from krepes.explain.retraining import Mean, Trained, check_of, exactness, flipped, rank_correlations
from krepes.explain.training_rows import LinearInRows, TrainingRows, query_features
from krepes.machines import KernelRidgeClassifier

DATA = ("digits", "mnist", "cifar10", "adult", "satimage", "magic", "letter", "phoneme")
K = 5  # neighbours of kNN-Shapley


def knn_shapley(S: Tensor, match: Tensor) -> Tensor:
    """Exact Shapley values of rows for a K-nearest-neighbour vote, (q, n): [jia], from the farthest on."""
    order = S.argsort(dim=1, descending=True)
    right = match.gather(1, order)
    n = S.shape[1]
    place = torch.arange(1, n, dtype=torch.float64)
    steps = (right[:, :-1] - right[:, 1:]) / K * place.clamp(max=K) / place
    last = right[:, -1:] / n
    values = torch.cat([steps.flip(1).cumsum(1).flip(1) + last, last], dim=1)
    return torch.zeros_like(S).scatter(1, order, values)


def captum_values(trained: Trained) -> dict[str, Callable[[], Tensor]]:
    """TracIn at the solution and cosine similarity of features, by captum."""
    try:
        from captum.influence import TracInCPFast
    except ImportError:
        return {}
    whole = trained.linear.whole
    linear = torch.nn.Linear(*whole.W.shape).double()
    linear.weight.data, linear.bias.data = whole.W.mT.clone(), whole.ybar - whole.mu @ whole.W
    data = torch.utils.data.TensorDataset(trained.Phi, trained.Y)

    def tracin() -> Tensor:
        found = TracInCPFast(
            torch.nn.Sequential(linear), linear, data, ["the solution"], checkpoints_load_func=lambda model, path: 1.0,
            loss_fn=torch.nn.MSELoss(reduction="sum"), batch_size=500,
        )  # fmt: skip
        # the gradient of (y - f)^2 at a query that wants the score to rise along v
        wanted = linear(trained.queries).detach() + trained.V
        return found.influence((trained.queries, wanted)).detach()

    return {"TracIn (captum)": tracin}


def methods(
    trained: Trained, codes: np.ndarray, predicted: np.ndarray, generator: np.random.Generator
) -> dict:
    """Values of all rows for all queries, by method."""
    whole, Phi, Q = trained.linear.whole, trained.Phi, trained.queries
    errors = (trained.Y - whole.scores(Phi)) @ trained.V.mT  # (n, q)
    match = torch.from_numpy((codes == predicted[:, None]).astype(np.float64))
    cosine = torch.nn.functional.normalize(Q) @ torch.nn.functional.normalize(Phi).mT
    gram = torch.linalg.inv(Phi.mT @ Phi + 1e-6 * torch.eye(Phi.shape[1], dtype=torch.float64))
    return {
        "krepes: explain": lambda: trained.values("explain", generator),
        "krepes: exact effects": lambda: trained.values("effects", generator),
        "kernel value": lambda: trained.S,
        **captum_values(trained),
        "similarity, same class": lambda: cosine * (2 * match - 1),
        "representer points": lambda: (Q @ Phi.mT) * errors.mT,
        "TRAK's formula": lambda: (Q @ gram @ Phi.mT) * errors.mT,
        "kNN-Shapley": lambda: knn_shapley(trained.S, match),
        "random": lambda: torch.from_numpy(generator.random(trained.S.shape)),
    }


def wrong_labels(
    trained: Trained, own: Tensor, codes: np.ndarray, generator: np.random.Generator
) -> dict[str, float]:
    """The area under the curve, by method."""
    changed = flipped(codes, trained.Y.shape[1], generator)
    n, wrong = len(codes), changed != codes
    again = trained.with_targets(torch.eye(trained.Y.shape[1], dtype=torch.float64)[changed])
    scores = {"krepes: leave-one-out error": again.left_out_errors()[torch.arange(n), changed].numpy()}
    others = own.clone().fill_diagonal_(-torch.inf)
    match = torch.from_numpy((changed[:, None] == changed).astype(np.float64))
    scores["kNN-Shapley"] = -knn_shapley(others, match).sum(0).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        P = cross_val_predict(
            LogisticRegression(max_iter=200), trained.Phi.numpy(), changed, method="predict_proba"
        )
        try:
            from cleanlab.rank import get_label_quality_scores

            scores["cleanlab, self-confidence"] = -get_label_quality_scores(changed, P)
        except ImportError:
            pass
    return {name: float(roc_auc_score(wrong, score)) for name, score in scores.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--landmarks", type=int, default=500)
    parser.add_argument("--data", nargs="+", default=[*DATA])
    args = parser.parse_args()
    figures: dict = {}
    for name in args.data:
        X, y = rows_of(name)
        n, generator = min(args.rows, len(y) - args.queries), np.random.default_rng(0)
        machine = KernelRidgeClassifier(n_landmarks=args.landmarks, local=False, random_state=0).fit(
            X[:n], y[:n]
        )
        asked, truth_labels = X[n:][: args.queries], y[n:][: args.queries]
        kept = TrainingRows.kept_by(machine)
        assert kept is not None
        S = similarities(machine, all_inputs(machine, asked), kept.inputs)
        own = similarities(machine, kept.inputs, kept.inputs)
        V, _, predicted = directions_of(machine, machine._scores(asked))
        predicted = machine.targets_.encoded(predicted)
        parts = *kept.features(machine), query_features(machine, asked), torch.from_numpy(V), S
        trained = Trained(LinearInRows.of(machine), *parts).solved()
        halves = np.array([generator.permutation(n) < n // 2 for _ in range(100)], dtype=np.float64)
        start = time.perf_counter()
        truth = torch.stack(
            [trained.only(torch.from_numpy(half)).outputs() for half in halves], dim=1
        ).numpy()
        seconds = time.perf_counter() - start
        accuracy = float((machine.predict(asked) == truth_labels).mean())
        found: dict = {"accuracy": accuracy, "seconds to retrain 100 halves": round(seconds, 2)}
        found["closed form less refit, relative"] = exactness(trained)
        print(
            f"{name}: accuracy {accuracy:.3f}, {seconds:.1f} s for 100 halves, exact to {exactness(trained):.0e}"
        )
        for method, values_of in methods(trained, kept.y, predicted, generator).items():
            start = time.perf_counter()
            values = values_of()
            seconds = time.perf_counter() - start
            lds = Mean.of(rank_correlations(values.numpy() @ halves.T, truth))
            found[method] = {"LDS": str(lds), "seconds": round(seconds, 3)}
            print(f"  {method:28s} LDS {lds}   {seconds:.2f} s", flush=True)
        codes = machine.targets_.encoded(truth_labels)
        for method, columns in check_of(trained, own, (kept.y, codes), generator).items():
            found[f"check: {method}"] = {column: str(Mean.of(values)) for column, values in columns.items()}
            print(f"  check {method:14s}", found[f"check: {method}"], flush=True)
        found["wrong labels"] = wrong_labels(trained, own, kept.y, generator)
        print(
            "  wrong labels",
            {key: round(value, 3) for key, value in found["wrong labels"].items()},
            flush=True,
        )
        figures[name] = found
    record("truth", figures)


if __name__ == "__main__":
    main()
