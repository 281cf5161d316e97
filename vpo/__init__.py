"""Vector Policy Optimization: learning from reward vectors, usable without the search.

Names are loaded when first used, so that ``import vpo`` costs nothing and the estimators need no
torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vpo.advantages import Advantages, compute_advantages
    from vpo.utility import SetUtility, set_utility

__all__ = ["Advantages", "SetUtility", "compute_advantages", "set_utility"]

_HOME = {
    "Advantages": "vpo.advantages",
    "SetUtility": "vpo.utility",
    "compute_advantages": "vpo.advantages",
    "set_utility": "vpo.utility",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'vpo' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
