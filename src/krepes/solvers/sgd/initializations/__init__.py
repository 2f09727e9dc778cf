"""Where gradient descent starts. Adding a rule is a file here and a line below."""

from krepes.solvers.sgd.initializations.initialization import Initialization
from krepes.solvers.sgd.initializations.kaiming import Kaiming
from krepes.solvers.sgd.initializations.principal import MomentPrincipal, Principal

__all__ = ["Initialization", "Kaiming", "MomentPrincipal", "Principal"]
