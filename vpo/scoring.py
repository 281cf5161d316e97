"""A model as a module that scores micro-batches: log-probability and entropy of each token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from vpo.logprobs import token_logprobs
from vpo.model import Model, base_of
from vpo.packing import MicroBatch


class TokenScorer(nn.Module):
    """Log-probabilities and entropies of the completion tokens of a micro-batch.

    One module, so that whatever wraps modules for several devices can wrap it whole.
    """

    def __init__(self, model: Model, temperature: float) -> None:
        """Take a causal language model, with or without adapters.

        Args:
            model: The model.
            temperature: Positive; scores are those of softmax(logits / temperature).

        Raises:
            ValueError: If the model's logits are not its output head applied to its last hidden
                state (a cap or a factor in between), since then the scores would be wrong.
        """
        super().__init__()
        self.model = model
        #: May be changed between updates.
        self.temperature = temperature
        base: Any = base_of(model)
        # Through a dict, so that the parts are not registered a second time.
        self._parts: dict[str, Any] = {
            "backbone": getattr(base, base.base_model_prefix),
            "head": base.get_output_embeddings(),
        }
        self._vocabulary = int(base.config.vocab_size)
        self._check(base)

    def layers(self) -> list[nn.Module]:
        """Return the blocks that are split over processes one by one."""
        names = set(getattr(base_of(self.model), "_no_split_modules", None) or ())
        return [module for module in self.model.modules() if type(module).__name__ in names]

    def forward(self, batch: MicroBatch) -> tuple[Tensor, Tensor]:
        """Return two (N,) float32 tensors, in the order of ``batch.targets``."""
        hidden = self._parts["backbone"](
            input_ids=batch.ids,
            attention_mask=batch.mask,
            position_ids=batch.positions,
            use_cache=False,
        ).last_hidden_state
        picked = hidden.reshape(-1, hidden.shape[-1])[batch.sources]
        return token_logprobs(
            picked,
            batch.targets,
            self._parts["head"],
            self._vocabulary,
            temperature=self.temperature,
        )

    @torch.no_grad()
    def _check(self, base: Any) -> None:
        ids = torch.arange(4, device=base.device)[None] % self._vocabulary
        hidden = self._parts["backbone"](input_ids=ids, use_cache=False).last_hidden_state
        ours = self._parts["head"](hidden).float()
        theirs = base(input_ids=ids, use_cache=False).logits.float()
        if not torch.allclose(ours, theirs, rtol=1e-2, atol=1e-2):
            raise ValueError(
                f"{type(base).__name__}: its logits are not head(hidden), "
                "such a model cannot be scored by chunks of the head"
            )
