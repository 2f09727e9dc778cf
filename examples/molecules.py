"""Graphs: which functional group does a molecule have? Six classes, in pairs that have the same atoms.

Alcohols and ethers, aldehydes and ketones, acids and esters are isomers: counts of atoms cannot tell them apart.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from krepes.kernels import ShortestPath, WeisfeilerLehman
from krepes.machines import KernelRidgeClassifier

BONDS = {"-": 1, "=": 2}


def molecule(smiles: str) -> dict:
    """The graph of a formula such as CC(=O)O: letters are atoms, = a double bond, brackets a side chain."""
    edges, labels, bonds = [], [], []
    last, bond, waiting = None, "-", []
    for sign in smiles:
        if sign == "(":
            waiting.append(last)
        elif sign == ")":
            last = waiting.pop()
        elif sign in BONDS:
            bond = sign
        else:
            labels.append(sign)
            if last is not None:
                edges.append((last, len(labels) - 1))
                bonds.append(BONDS[bond])
            last, bond = len(labels) - 1, "-"
    return {"edges": edges, "labels": labels, "edge_labels": bonds}


def chain(rng: np.random.Generator, n: int) -> str:
    """A random saturated chain of n carbon atoms, with side chains."""
    if n <= 2 or rng.random() < 0.5:
        return "C" * n
    side = int(rng.integers(1, n - 1))
    return f"C({chain(rng, side)}){chain(rng, n - 1 - side)}"


GROUPS = {
    "alcohol": lambda a, b: f"{a}{b}O",
    "ether": lambda a, b: f"{a}O{b}",
    "aldehyde": lambda a, b: f"O=C{a}{b}",
    "ketone": lambda a, b: f"O=C({a}){b}",
    "acid": lambda a, b: f"OC(=O){a}{b}",
    "ester": lambda a, b: f"O=C({a})O{b}",
}

rng = np.random.default_rng(0)
y = np.array([list(GROUPS)[i % 6] for i in range(800)])
formulas = [GROUPS[name](chain(rng, rng.integers(1, 9)), chain(rng, rng.integers(1, 9))) for name in y]
X = [molecule(formula) for formula in formulas]
counts = np.array([[f.count("C"), f.count("O"), f.count("=")] for f in formulas])
print("for example", ", ".join(f"{name} {formula}" for name, formula in zip(y[:6], formulas)))

train, test = train_test_split(np.arange(len(X)), train_size=200, stratify=y, random_state=0)
baseline = LogisticRegression(max_iter=1000).fit(counts[train], y[train])
print(f"{'atoms and double bonds, logistic':36s} accuracy {baseline.score(counts[test], y[test]):.1%}")
for kernel in (
    WeisfeilerLehman(1),
    WeisfeilerLehman(3),
    ShortestPath(),
    ShortestPath() + WeisfeilerLehman(2),
):
    model = KernelRidgeClassifier(kernel=kernel, random_state=0).fit([X[i] for i in train], y[train])
    print(f"{kernel!s:36s} accuracy {model.score([X[i] for i in test], y[test]):.1%}")
