#!/usr/bin/env python3
"""Write crf_golden.json: log Z and posterior probabilities of transitions, by PyTorch.

Log Z is computed in float64 in logarithms, frame by frame, from the definition of the state
space alone. The posterior probability of a transition is the derivative of log Z by its score,
which autograd finds without a backward sum of its own.
Needs torch.
"""
import json
import pathlib

import torch

torch.manual_seed(20261122)
cases = []


def log_z(scores, state_length):
    """scores: frames by states by 5, the stay first; returns the sum over all paths."""
    states = 4**state_length
    alpha = torch.zeros(states, dtype=torch.float64)
    index = torch.arange(states)
    for frame in scores:
        ways = [alpha + frame[:, 0]]
        for dropped in range(4):
            # The state before s has dropped as its oldest base and all but the newest of s.
            ways.append(alpha[dropped * (states // 4) + index // 4] + frame[:, 1 + dropped])
        alpha = torch.logsumexp(torch.stack(ways), 0)
    return torch.logsumexp(alpha, 0)


def add(state_length, frames, stay, spread):
    states = 4**state_length
    # Whole thousandths, so that both programs read the same numbers.
    whole = (torch.randn(frames, states, 4 if stay is not None else 5, dtype=torch.float64) * spread * 1000).round()
    whole = whole.clamp(-5000, 5000)
    scores = (whole / 1000).requires_grad_()
    full = scores
    if stay is not None:
        full = torch.cat([torch.full((frames, states, 1), stay, dtype=torch.float64, requires_grad=True), scores], -1)
    full.retain_grad()
    z = log_z(full, state_length)
    z.backward()
    cases.append({
        "state_length": state_length,
        "stay": stay,
        "scores": whole.int().flatten().tolist(),
        "log_z": z.item(),
        "posteriors": [float(f"{p:.6g}") for p in full.grad.flatten().tolist()],
    })


add(1, 30, 2.0, 2.0)
add(1, 30, None, 3.0)
add(2, 12, 2.0, 3.0)
add(2, 9, None, 2.0)
add(3, 4, 2.0, 2.5)
add(3, 3, None, 5.0)

path = pathlib.Path(__file__).with_name("crf_golden.json")
path.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
