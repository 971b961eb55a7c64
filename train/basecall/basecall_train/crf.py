"""The loss of a conditional random field over k-mers.

States, moves and the layout of scores are those of Bonito's CTC_CRF (ont-bonito 1.1.0), which the engine decodes (package
basecall/crf): a state is the last k bases, base i of ACGT counts i, and the newest is the least significant digit of base 4.
From frame to frame a path stays, at a score that all states share, or drops the oldest base and takes a new one, which is then
emitted. A frame has 4^(k+1) scores: of each state that is arrived at, those of its four moves by the base dropped.

On a processor core sums over paths are made as those of the CTC loss are (:mod:`.ctc`), of weights in double precision instead of
their logarithms; a move's is within e^5 of one. What a GPU does is in :mod:`.crf_gpu`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import torch

from .ctc import LEAST, RESCALED
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

    @classmethod
    def of(cls, scores: int) -> StateSpace:
        """Returns the states for so many scores of a frame, 4^(k+1)."""
        return cls((scores.bit_length() - 1) // 2 - 1)

    @property
    def states(self) -> int:
        return 4**self.length

    @property
    def scores(self) -> int:
        """Scores of a frame."""
        return 4 * self.states

    def partition(self, scores: torch.Tensor) -> torch.Tensor:
        """Returns the logarithm [N] of the sum of all paths' weights through scores [T, N, 4^(k+1)]."""
        frames, items, _ = scores.shape
        states = self.states
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
        most = spelled.shape[1]
        moves = scores.gather(2, self.moves(before, spelled).expand(frames, items, most))
        reached = torch.full((items, most + 1), IMPOSSIBLE, device=scores.device, dtype=scores.dtype)
        reached[:, 0] = 0
        nothing = torch.full((items, 1), IMPOSSIBLE, device=scores.device, dtype=scores.dtype)
        for move in moves:
            reached = torch.logaddexp(reached + self.stay, torch.cat([nothing, reached[:, :-1] + move], 1))
        return reached.gather(1, lengths[:, None]).squeeze(1)

    def moves(self, before: torch.Tensor, spelled: torch.Tensor) -> torch.Tensor:
        """Returns the indices [N, L] among a frame's scores of the moves that emit bases [N, L] from the states before [N, k]."""
        bases = torch.cat([before, spelled], 1)
        place = 4 ** torch.arange(self.length - 1, -1, -1, device=bases.device)
        arrived = (bases.unfold(1, self.length, 1)[:, 1:] * place).sum(-1)
        return arrived * 4 + bases[:, : spelled.shape[1]]

    def loss(self, scores: torch.Tensor, before: torch.Tensor, spelled: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Returns -log P [N] of emitting the given bases from the given state (see :meth:`spelling`)."""
        return _Losses.apply(scores, self, before, spelled, lengths)

    def _pytorchs(self, scores: torch.Tensor, before: torch.Tensor, spelled: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Returns the same by the sums of PyTorch."""
        return self.partition(scores) - self.spelling(scores, before, spelled, lengths)

    def divergence(self, scores: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
        """Returns the Kullback-Leibler divergence [N] of the distribution over all paths by scores [T, N, 4^(k+1)] from the one
        by told, of the same shape. Its derivative is one by scores alone."""
        return _Divergences.apply(scores, told, self)

    def call(self, scores: np.ndarray) -> np.ndarray:
        """Returns the bases, 0 to 3, that the path through scores [T, 4^(k+1)] emits whose moves are the likeliest together,
        as Bonito decodes by default. The likeliest path of all is worse, as many paths share a spelling.
        """
        chances = np.zeros((len(scores), self.scores + self.states))
        _partition(np.exp(scores.astype(np.float64)), np.exp(self.stay), chances)
        return _likeliest(np.log(chances + 1e-10))

    def draw(self, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Returns a path through scores [T, 4^(k+1)], drawn from all by their probabilities: the class [T] that each frame emits, 1
        to 4, or 0 where the path stays."""
        return _drawn(np.exp(scores.astype(np.float64)), np.exp(self.stay), rng.random(len(scores) + 1))


class _Losses(torch.autograd.Function):
    """The derivative by the score of a move is the probability that any path makes it, less that of one that spells the bases."""

    @staticmethod
    def forward(
        ctx, scores: torch.Tensor, space: StateSpace, before: torch.Tensor, spelled: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        made = _on_a_gpu if scores.is_cuda else _on_a_core
        losses, ctx.gradient = made(scores.detach(), space, before, spelled, lengths)
        for n in torch.nonzero(~losses.isfinite()).flatten().tolist():
            # Too few frames, or the bases are so improbable by the scores that doubles can't hold them.
            one = slice(n, n + 1)
            again = scores.detach()[:, one].double().requires_grad_(True)
            with torch.enable_grad():
                lost = space._pytorchs(again, before[one], spelled[one], lengths[one])
                ctx.gradient[:, n] = torch.autograd.grad(lost.sum(), again)[0][:, 0]
            losses[n] = lost.item()
        return losses

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        return gradient[:, None] * ctx.gradient, None, None, None, None


class _Divergences(torch.autograd.Function):
    """The derivative by the score of a move is the difference of its probabilities."""

    @staticmethod
    def forward(ctx, scores: torch.Tensor, told: torch.Tensor, space: StateSpace) -> torch.Tensor:
        if scores.is_cuda:
            from .crf_gpu import all_paths  # needs Triton, which not every PyTorch has
        else:
            all_paths = _all_paths
        logarithms, chances = all_paths(scores.detach(), space.stay)
        expected, ctx.gradient = all_paths(told, space.stay)
        # What paths that stay weigh is the same in both.
        more = (ctx.gradient * (told - scores.detach())).sum((0, 2), dtype=torch.float64)
        torch.sub(chances, ctx.gradient, out=ctx.gradient)
        return (more + logarithms - expected).to(scores.dtype)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradient[:, None] * ctx.gradient, None, None


def _all_paths(scores: torch.Tensor, stay: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the logarithms [N], in double precision, of the sums of all paths' weights through scores [T, N, 4 S], and the
    probabilities [T, N, 4 S] of the moves."""
    frames, items, width = scores.shape
    logarithms = torch.empty(items, dtype=torch.float64)
    chances = torch.zeros(items, frames, width // 4 * 5, dtype=scores.dtype)
    for n in range(items):
        weights = np.exp(scores[:, n].numpy().astype(np.float64))
        logarithms[n] = _partition(weights, np.exp(stay), chances[n].numpy())
    return logarithms, chances[:, :, :width].transpose(0, 1)


def _on_a_gpu(
    scores: torch.Tensor, space: StateSpace, before: torch.Tensor, spelled: torch.Tensor, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns losses [N], some infinite, and the gradient [T, N, 4 S]."""
    from .crf_gpu import losses_and_gradient  # needs Triton, which not every PyTorch has

    return losses_and_gradient(scores, space.stay, space.moves(before, spelled), lengths)


def _on_a_core(
    scores: torch.Tensor, space: StateSpace, before: torch.Tensor, spelled: torch.Tensor, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns losses [N], some infinite, and the gradient [T, N, 4 S]."""
    losses = torch.empty(scores.shape[1], dtype=scores.dtype)
    # Chances of staying are summed up with those of moves and dropped: its score is no variable.
    gradient = torch.zeros(scores.shape[1], len(scores), space.scores + space.states, dtype=scores.dtype)
    weight = np.exp(space.stay)
    moves = space.moves(before, spelled).numpy()
    for n, size in enumerate(lengths.tolist()):
        weights = np.exp(scores[:, n].numpy().astype(np.float64))
        of_all = _partition(weights, weight, gradient[n].numpy())
        losses[n] = of_all - _spelling(weights, weight, moves[n, :size], gradient[n].numpy())
    return losses, gradient[:, :, : space.scores].transpose(0, 1)


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "arcp"})
def _partition(weights: np.ndarray, stay: float, chances: np.ndarray) -> float:
    """Returns the logarithm of the sum of all paths' weights, a move's being weights [T, 4 S] and that of staying stay; adds to
    chances [T, 4 S + S] the probabilities of the moves, and of staying in each state."""
    reached, logarithm = _reached(weights, stay)
    frames, states = len(weights), weights.shape[1] // 4
    quarter = states // 4
    on, onward = np.ones(states), np.empty(states)
    made = np.empty(5 * states)
    for t in range(frames - 1, -1, -1):
        before, moves = reached[t], weights[t]
        total = 0.0
        for s in range(states):
            onward[s] = on[s] * stay
            made[4 * states + s] = before[s] * onward[s]
            total += made[4 * states + s]
        for q in range(quarter):
            for s in range(4 * q, 4 * q + 4):
                for d in range(4):
                    to = moves[4 * s + d] * on[s]
                    onward[q + d * quarter] += to
                    made[4 * s + d] = before[q + d * quarter] * to
                    total += made[4 * s + d]
        share = 1 / total
        for m in range(5 * states):
            chances[t, m] += made[m] * share
        if t % RESCALED == 0:
            onward *= 1 / onward.sum()
        on, onward = onward, on
    return logarithm + np.log(reached[frames].sum())


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "arcp"})
def _reached(weights: np.ndarray, stay: float) -> tuple[np.ndarray, float]:
    """Returns the sums [T + 1, S] of the weights of the paths that lead to each state, all of the same frame times one factor, and
    the logarithm of what those of the last were divided by."""
    frames, states = len(weights), weights.shape[1] // 4
    quarter = states // 4
    reached = np.empty((frames + 1, states))
    reached[0] = 1.0
    logarithm = 0.0
    for t in range(frames):
        before, now, moves = reached[t], reached[t + 1], weights[t]
        for q in range(quarter):
            for s in range(4 * q, 4 * q + 4):
                arrived = before[q] * moves[4 * s] + before[q + quarter] * moves[4 * s + 1]
                arrived += before[q + 2 * quarter] * moves[4 * s + 2] + before[q + 3 * quarter] * moves[4 * s + 3]
                now[s] = before[s] * stay + arrived
        if t % RESCALED == RESCALED - 1:
            total = now.sum()
            now *= 1 / total
            logarithm += np.log(total)
    return reached, logarithm


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "arcp"})
def _spelling(weights: np.ndarray, stay: float, moves: np.ndarray, chances: np.ndarray) -> float:
    """Returns the logarithm of the sum of the weights of the paths that make these moves [L], and takes their probabilities from
    chances; -inf if doubles hold none, and chances are of no use then."""
    frames, size = len(weights), len(moves)
    reached = np.empty((frames + 1, size + 1))
    reached[0] = 0.0
    reached[0, 0] = 1.0
    move = np.empty(size)
    logarithm = 0.0
    for t in range(frames):
        before, now = reached[t], reached[t + 1]
        for j in range(size):
            move[j] = weights[t, moves[j]]
        now[0] = before[0] * stay
        for j in range(size):
            now[j + 1] = before[j + 1] * stay + before[j] * move[j]
        if t % RESCALED == RESCALED - 1:
            total = now.sum()
            if total < LEAST:
                return -np.inf
            now *= 1 / total
            logarithm += np.log(total)
    if reached[frames, size] < LEAST:
        return -np.inf
    logarithm += np.log(reached[frames, size])

    on = np.zeros(size + 2)
    on[size] = 1.0
    made = np.empty(size)
    for t in range(frames - 1, -1, -1):
        before = reached[t]
        for j in range(size):
            move[j] = weights[t, moves[j]] * on[j + 1]
        stayed = 0.0
        for j in range(size + 1):
            on[j] *= stay
            stayed += before[j] * on[j]
        total = stayed
        for j in range(size):
            made[j] = before[j] * move[j]
            total += made[j]
            on[j] += move[j]
        if total < LEAST:
            return -np.inf
        share = 1 / total
        for j in range(size):
            chances[t, moves[j]] -= made[j] * share
        if t % RESCALED == 0:
            on *= 1 / on.sum()
    return logarithm


@numba.njit(nogil=True, cache=True)
def _likeliest(values: np.ndarray) -> np.ndarray:
    """Returns the bases that the path emits whose values [T, 4 S + S], of moves and of staying, have the greatest sum."""
    frames, states = len(values), values.shape[1] // 5
    quarter = states // 4
    best, better = np.zeros(states), np.empty(states)
    origin = np.empty((frames, states), np.int8)  # the base dropped; 4: stayed
    for t in range(frames):
        for s in range(states):
            better[s], origin[t, s] = best[s] + values[t, 4 * states + s], 4
            for d in range(4):
                value = best[s // 4 + d * quarter] + values[t, 4 * s + d]
                if value > better[s]:
                    better[s], origin[t, s] = value, d
        best, better = better, best
    state = best.argmax()
    bases = np.empty(frames, np.uint8)
    count = 0
    for t in range(frames - 1, -1, -1):
        dropped = origin[t, state]
        if dropped < 4:
            bases[count] = state % 4
            count += 1
            state = state // 4 + dropped * quarter
    return bases[:count][::-1].copy()


@numba.njit(nogil=True, cache=True)
def _drawn(weights: np.ndarray, stay: float, uniform: np.ndarray) -> np.ndarray:
    """Returns the class [T] that each frame emits, 0 for none, on the path that numbers uniform [T + 1] choose, a move's weight
    being weights [T, 4 S] and that of staying stay. It is drawn from its end, by the weights of all that leads there."""
    reached, _ = _reached(weights, stay)
    frames, states = len(weights), weights.shape[1] // 4
    quarter = states // 4
    left = uniform[frames] * reached[frames].sum()
    state = states - 1
    for s in range(states):
        left -= reached[frames, s]
        if left < 0:
            state = s
            break
    emitted = np.zeros(frames, np.uint8)
    for t in range(frames - 1, -1, -1):
        before = reached[t]
        came = np.empty(4)
        for d in range(4):
            came[d] = before[state // 4 + d * quarter] * weights[t, 4 * state + d]
        left = uniform[t] * (came.sum() + before[state] * stay)
        for d in range(4):
            left -= came[d]
            if left < 0:
                emitted[t] = state % 4 + 1
                state = state // 4 + d * quarter
                break
    return emitted
