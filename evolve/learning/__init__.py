"""The bridge between the search and the learning library, and the only part that imports it.

One way: a model of ``vpo`` becomes a policy that samples edits (:mod:`evolve.learning.policy`). The
other: stored rollouts become a training batch (``batch``), an update becomes a policy version
(``learner``).
"""

from evolve.learning.opening import open_model

__all__ = ["open_model"]
