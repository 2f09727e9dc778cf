"""
Molecules as graphs
===================

Which functional group does a molecule have? The classes come in pairs with the same atoms: only the graph can tell.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from krepes.kernels import ShortestPath, WeisfeilerLehman
from krepes.machines import KernelRidgeClassifier

rng = np.random.default_rng(0)
GROUPS = {  # atoms and bonds of each group; A and B are chains of carbon
    "alcohol": "ABO", "ether": "AOB", "aldehyde": "O=CAB",
    "ketone": "O=C(A)B", "acid": "OC(=O)AB", "ester": "O=C(A)OB",
}  # fmt: skip


def chain(n: int) -> str:
    """A random chain of n carbon atoms, with side chains."""
    if n <= 2 or rng.random() < 0.5:
        return "C" * n
    side = int(rng.integers(1, n - 1))
    return f"C({chain(side)}){chain(n - 1 - side)}"


def molecule(formula: str) -> dict:
    """The graph of a formula such as CC(=O)O: letters are atoms, = a double bond, brackets a side chain."""
    edges, labels, bonds, last, bond, waiting = [], [], [], None, 1, []
    for sign in formula:
        if sign == "(":
            waiting.append(last)
        elif sign == ")":
            last = waiting.pop()
        elif sign == "=":
            bond = 2
        else:
            labels.append(sign)
            if last is not None:
                edges.append((last, len(labels) - 1))
                bonds.append(bond)
            last, bond = len(labels) - 1, 1
    return {"edges": edges, "labels": labels, "edge_labels": bonds}


y = np.array([list(GROUPS)[i % 6] for i in range(800)])
formulas = []
for name in y:
    a, b = chain(rng.integers(1, 9)), chain(rng.integers(1, 9))
    formulas.append(GROUPS[name].replace("A", a).replace("B", b))
X = [molecule(formula) for formula in formulas]
train, test = train_test_split(np.arange(800), train_size=200, stratify=y, random_state=0)

# %%
# Counts of atoms and double bonds cannot tell the pairs apart. A graph kernel compares neighbourhoods or paths.
counts = np.array([[f.count("C"), f.count("O"), f.count("=")] for f in formulas])
baseline = LogisticRegression(max_iter=1000).fit(counts[train], y[train])
scores = {"counts of atoms": 100 * baseline.score(counts[test], y[test])}
for kernel in (ShortestPath(), WeisfeilerLehman(1), WeisfeilerLehman(3)):
    model = KernelRidgeClassifier(kernel=kernel, random_state=0).fit([X[i] for i in train], y[train])
    scores[str(kernel)] = 100 * model.score([X[i] for i in test], y[test])

# %%
# Neighbourhoods of one bond are nearly enough; three bonds tell all.
plt.style.use("tableau-colorblind10")
figure, axis = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
bars = axis.barh(list(scores), list(scores.values()), color=["C2", "C0", "C0", "C0"])
axis.bar_label(bars, fmt="%.0f %%", padding=3)
axis.invert_yaxis()
axis.set(xlabel="test accuracy, %", xlim=(0, 112))
plt.show()
