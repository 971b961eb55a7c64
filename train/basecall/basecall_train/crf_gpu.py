"""The loss of a CRF (:mod:`.crf`) and its gradient on a GPU: a program of Triton for each chunk, which walks along its frames.

PyTorch's own sums launch a handful of kernels for each frame and keep all that each has made for the gradient: with 256 states and
700 frames the GPU waits for the processor most of the time. Here all of a batch is four kernels. Programs of Triton can't read
what their other threads hold, so the variables of a frame go through memory, where the gradient wants the forward ones anyway.

Sums over all paths are made of weights in single precision, those over the paths that spell the bases in double, both brought back
to a sum of one every few frames, as on a processor core.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .ctc import LEAST, RESCALED

HOW = {"num_warps": 4, "num_stages": 1}
"""How a kernel's programs are laid out."""


def losses_and_gradient(
    scores: torch.Tensor, stay: float, moves: torch.Tensor, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns -log P [N] of making moves [N, L], of which lengths [N] count, and its derivative by scores [T, N, 4^(k+1)].

    Losses are inf where doubles hold none of the paths that make these moves; the gradient is of no use there.
    """
    scores, moves = scores.contiguous(), moves.to(torch.int32).contiguous()
    frames, items, width = scores.shape
    most = moves.shape[1]
    of_all, gradient = all_paths(scores, stay)

    places = triton.next_power_of_2(most + 1)
    spelling = torch.empty(items, dtype=torch.float64, device=scores.device)
    reached = torch.empty(items, frames + 2, places, dtype=torch.float64, device=scores.device)
    given = (scores, moves, lengths, reached, spelling)
    _reach_places[(items,)](*given, frames, items, most, width, stay, LEAST=LEAST, PLACES=places, EVERY=RESCALED, **HOW)
    _leave_places[(items,)](*given, gradient, frames, items, most, width, stay, LEAST=LEAST, PLACES=places, **HOW)
    return (of_all - spelling).to(scores.dtype), gradient


def all_paths(scores: torch.Tensor, stay: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the logarithms [N], in double precision, of the sums of all paths' weights through scores [T, N, 4^(k+1)], and the
    probabilities [T, N, 4^(k+1)] of the moves."""
    scores = scores.contiguous()
    frames, items, width = scores.shape
    states = width // 4
    logarithms = torch.empty(items, dtype=torch.float64, device=scores.device)
    chances = torch.empty_like(scores)
    # Places of frame t + 2 are free again for what goes on from frame t once the frames behind have been worked on.
    reached = torch.empty(items, frames + 2, states, dtype=torch.float32, device=scores.device)
    _reach_states[(items,)](scores, reached, logarithms, frames, items, stay, STATES=states, EVERY=RESCALED, **HOW)
    _leave_states[(items,)](scores, reached, chances, frames, items, stay, STATES=states, **HOW)
    return logarithms, chances


@triton.jit
def _reach_states(scores, reached, logarithms, frames, items, stay, STATES: tl.constexpr, EVERY: tl.constexpr):
    """Writes the sums reached [N, T + 2, S] of the weights of the paths that lead to each state, and the logarithms [N] of the sum
    of all paths'."""
    n = tl.program_id(0).to(tl.int64)
    state, drop = tl.arange(0, STATES), tl.arange(0, 4)
    before = (state // 4)[:, None] + drop[None, :] * (STATES // 4)
    move = state[:, None] * 4 + drop[None, :]
    staying = tl.exp(stay + tl.zeros([STATES], tl.float32))
    row = scores + n * 4 * STATES
    at = reached + n * (frames + 2) * STATES
    now = tl.full([STATES], 1.0, tl.float32)
    logarithm = tl.sum(now * 0, 0).to(tl.float64)
    tl.store(at + state, now)
    tl.debug_barrier()
    for t in range(frames):
        arrived = tl.load(at + before) * tl.exp(tl.load(row + move))
        now = now * staying + tl.sum(arrived, 1)
        if t % EVERY == EVERY - 1:
            total = tl.sum(now, 0)
            now = now / total
            logarithm += tl.log(total.to(tl.float64))
        at += STATES
        row += items * 4 * STATES
        tl.store(at + state, now)
        tl.debug_barrier()
    tl.store(logarithms + n, logarithm + tl.log(tl.sum(now, 0).to(tl.float64)))


@triton.jit
def _leave_states(scores, reached, gradient, frames, items, stay, STATES: tl.constexpr):
    """Writes the probabilities gradient [T, N, 4 S] of all moves; it uses up what :func:`_reach_states` has written."""
    n = tl.program_id(0).to(tl.int64)
    state, four = tl.arange(0, STATES), tl.arange(0, 4)
    before = (state // 4)[:, None] + four[None, :] * (STATES // 4)
    move = state[:, None] * 4 + four[None, :]
    # The states that a state can move to, and the moves there.
    behind = (state % (STATES // 4))[:, None] * 4 + four[None, :]
    onward = behind * 4 + (state // (STATES // 4))[:, None]
    staying = tl.exp(stay + tl.zeros([STATES], tl.float32))
    last = n * 0 + frames - 1
    row = (last * items + n) * 4 * STATES
    at = reached + (n * (frames + 2) + last) * STATES
    on = tl.full([STATES], 1.0, tl.float32)
    for _ in range(frames):
        tl.store(at + 2 * STATES + state, on)
        tl.debug_barrier()
        stayed = tl.load(at + state) * on * staying
        moved = tl.load(at + before) * tl.exp(tl.load(scores + row + move)) * on[:, None]
        share = 1 / (tl.sum(stayed, 0) + tl.sum(tl.sum(moved, 1), 0))
        tl.store(gradient + row + move, moved * share)
        left = tl.load(at + 2 * STATES + behind) * tl.exp(tl.load(scores + row + onward))
        on = on * staying + tl.sum(left, 1)
        on = on / tl.sum(on, 0)
        at -= STATES
        row -= items * 4 * STATES


@triton.jit
def _reach_places(
    scores, moves, lengths, reached, logarithms, frames, items, most, width, stay,
    LEAST: tl.constexpr, PLACES: tl.constexpr, EVERY: tl.constexpr,
):  # fmt: skip
    """Writes the sums reached [N, T + 2, PLACES] of the weights of the paths that have made the first so many of their moves, and
    the logarithms [N] of the sum of those that have made all; -inf if doubles hold none."""
    n = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, PLACES)
    length = tl.load(lengths + n)
    moved = (place > 0) & (place <= length)
    move = tl.load(moves + n * most + place - 1, mask=moved, other=0)
    staying = tl.exp(stay + tl.zeros([PLACES], tl.float32)).to(tl.float64)
    row = scores + n * width
    at = reached + n * (frames + 2) * PLACES
    now = tl.where(place == 0, 1.0, 0.0).to(tl.float64)
    logarithm = tl.sum(now * 0, 0)
    tl.store(at + place, now)
    tl.debug_barrier()
    for t in range(frames):
        weight = tl.exp(tl.load(row + move)).to(tl.float64)
        now = now * staying + tl.load(at + place - 1, mask=moved, other=0.0) * weight
        if t % EVERY == EVERY - 1:
            total = tl.sum(now, 0)
            # What doubles hardly hold is nothing: of it the loss is inf.
            now = tl.where(total < LEAST, 0.0, now / total)
            logarithm += tl.log(tl.where(total < LEAST, 1.0, total))
        at += PLACES
        row += items * width
        tl.store(at + place, now)
        tl.debug_barrier()
    whole = tl.sum(tl.where(place == length, now, 0.0), 0)
    found = logarithm + tl.log(tl.where(whole < LEAST, 1.0, whole))
    tl.store(logarithms + n, tl.where(whole < LEAST, -float("inf"), found))


@triton.jit
def _leave_places(
    scores, moves, lengths, reached, logarithms, gradient, frames, items, most, width, stay,
    LEAST: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """Takes the probabilities of the moves of the paths that spell the bases from gradient [T, N, 4 S], and uses up what
    :func:`_reach_places` has written."""
    n = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, PLACES)
    length = tl.load(lengths + n)
    moved = (place > 0) & (place <= length)
    move = tl.load(moves + n * most + place - 1, mask=moved, other=0)
    staying = tl.exp(stay + tl.zeros([PLACES], tl.float32)).to(tl.float64)
    last = n * 0 + frames - 1
    row = (last * items + n) * width
    at = reached + (n * (frames + 2) + last) * PLACES
    on = tl.where(place == length, 1.0, 0.0).to(tl.float64)
    smallest = tl.sum(on, 0)
    for _ in range(frames):
        left = on * tl.exp(tl.load(scores + row + move)).to(tl.float64)
        tl.store(at + 2 * PLACES + place, left)
        tl.debug_barrier()
        stayed = tl.load(at + place) * on * staying
        made = tl.load(at + place - 1, mask=moved, other=0.0) * left
        total = tl.sum(stayed, 0) + tl.sum(made, 0)
        smallest = tl.minimum(smallest, total)
        share = tl.where(total < LEAST, 0.0, 1 / total)
        tl.atomic_add(gradient + row + move, -(made * share).to(tl.float32), mask=moved, sem="relaxed")
        on = on * staying + tl.load(at + 2 * PLACES + place + 1, mask=place < length, other=0.0)
        whole = tl.sum(on, 0)
        on = tl.where(whole < LEAST, 0.0, on / whole)
        at -= PLACES
        row -= items * width
    if smallest < LEAST:
        tl.store(logarithms + n, -float("inf"))
