"""The engine that samples in process: a copy of the model, apart from the one that is trained.

It holds one version at a time, merged into plain weights, so an adapter costs nothing while
sampling; and it samples version N while the trainer makes N + 1.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import PreTrainedModel

from vpo.model import load_version
from vpo.probe import FLOAT32_TOLERANCE, Floats, Scorer, check_weights, model_scorer
from vpo.sampling import Sample, generate


class InProcessEngine:
    """Samples from a version of a base model.

    Attributes:
        version: The version it holds; 0 is the base.
    """

    def __init__(self, base: PreTrainedModel) -> None:
        """Take a copy of ``base``, a model without adapters.

        Raises:
            ValueError: If there are adapters on it.
        """
        if any(isinstance(module, BaseTunerLayer) for module in base.modules()):
            raise ValueError("the base has adapters on it: make the engine before attaching them")
        self._base = copy.deepcopy(base).requires_grad_(False)
        self._base.train(False)
        self._model = self._base
        self.version = 0

    def load(
        self,
        folder: Path,
        version: int,
        trainer: Scorer,
        probes: Sequence[Sequence[int]],
        *,
        tolerance: float = FLOAT32_TOLERANCE,
    ) -> float:
        """Take the weights of a version from disk and return their gap to the trainer's.

        Args:
            folder: Of the version, see :func:`vpo.model.save_version`.
            version: Its number.
            trainer: Scorer of the model that was trained, see :func:`vpo.probe.model_scorer`.
            probes: Token sequences on which the two are compared.
            tolerance: See :func:`vpo.probe.check_weights`.

        Raises:
            WeightsMismatchError: If the gap is too large; the engine keeps what it held.
            ValueError: If there is no version in the folder.
        """
        loaded = load_version(self._base, folder)
        gap = check_weights(model_scorer(loaded), trainer, probes, tolerance=tolerance)
        self._model, self.version = loaded, version
        return gap

    def reset(self) -> None:
        """Go back to the base, version 0."""
        self._model, self.version = self._base, 0

    def generate(
        self, prompts: Sequence[Sequence[int]], n: int, **options: Any
    ) -> Iterator[list[Sample]]:
        """Yield ``n`` samples for each prompt; see :func:`vpo.sampling.generate`."""
        return generate(self._model, prompts, n, **options)

    def score(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """Return log-probabilities, see :data:`vpo.probe.Scorer`."""
        return model_scorer(self._model)(sequences)
