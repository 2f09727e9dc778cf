# The part of scikit-learn that classes of krepes inherit from: everything else stays untyped.
from typing import Any

__version__: str

def get_config() -> dict[str, Any]: ...
