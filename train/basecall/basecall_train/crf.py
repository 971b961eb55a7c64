"""The loss of a conditional random field over k-mers.

States, moves and the layout of scores are those of Bonito's CTC_CRF (ont-bonito 1.1.0), which the engine decodes (package
basecall/crf): a state is the last k bases, base i of ACGT counts i, and the newest is the least significant digit of base 4.
From frame to frame a path stays, at a score that all states share, or drops the oldest base and takes a new one, which is then
emitted. A frame has 4^(k+1) scores: of each state that is arrived at, those of its four moves by the base dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .manifest import STAY_SCORE

IMPOSSIBLE = -1e30
"""Score of what can't be. Finite, as the gradient of a sum of infinities is none."""


@dataclass(frozen=True)
class StateSpace:
    """The states of k bases."""

    length: int
    """Bases in a state, k."""
    stay: float = STAY_SCORE
    """Score of staying, of all states. The network's scores are relative to it."""

    def __post_init__(self) -> None:
        if not 1 <= self.length <= 5:
            raise ValueError(f"state_length: {self.length} is not between 1 and 5")

    @property
    def scores(self) -> int:
        """Scores of a frame."""
        return 4 ** (self.length + 1)

    def partition(self, scores: torch.Tensor) -> torch.Tensor:
        """Returns the logarithm [N] of the sum of all paths' weights through scores [T, N, 4^(k+1)]."""
        frames, items, _ = scores.shape
        states = 4**self.length
        # The predecessors of states 4q to 4q+3 are q, q + S/4, q + 2S/4 and q + 3S/4: no gather is needed.
        moves = scores.view(frames, items, states // 4, 4, 4)
        reached = scores.new_zeros(items, states)
        for move in moves:
            before = reached.view(items, 4, states // 4).transpose(1, 2).unsqueeze(2)
            stay = reached.view(items, states // 4, 4, 1) + self.stay
            reached = torch.cat([move + before, stay], -1).logsumexp(-1).view(items, states)
        return reached.logsumexp(-1)

    def spelling(self, scores: torch.Tensor, before: torch.Tensor, spelled: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Returns the logarithm [N] of the sum of the weights of those paths that begin in a state and emit given bases.

        before [N, k] are the bases of the state, oldest first, spelled [N, L] those emitted, of which lengths [N] count. Bases are
        0 to 3.
        """
        frames, items, _ = scores.shape
        k, most = self.length, spelled.shape[1]
        all_bases = torch.cat([before, spelled], 1)
        place = 4 ** torch.arange(k - 1, -1, -1, device=scores.device)
        arrived = (all_bases.unfold(1, k, 1)[:, 1:] * place).sum(-1)
        dropped = all_bases[:, :most]
        moves = scores.gather(2, (arrived * 4 + dropped).expand(frames, items, most))
        reached = torch.full((items, most + 1), IMPOSSIBLE, device=scores.device, dtype=scores.dtype)
        reached[:, 0] = 0
        nothing = torch.full((items, 1), IMPOSSIBLE, device=scores.device, dtype=scores.dtype)
        for move in moves:
            reached = torch.logaddexp(reached + self.stay, torch.cat([nothing, reached[:, :-1] + move], 1))
        return reached.gather(1, lengths[:, None]).squeeze(1)

    def loss(self, scores: torch.Tensor, before: torch.Tensor, spelled: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Returns -log P [N] of emitting the given bases from the given state (see :meth:`spelling`)."""
        return self.partition(scores) - self.spelling(scores, before, spelled, lengths)
