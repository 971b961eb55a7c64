"""From logits to probabilities that hold."""

from __future__ import annotations

import numpy as np

PRIOR = np.diag([20.0, 5.0])
"""What holds slope and offset back, as some observations would: with few labels the odds stay."""
MOST = 8.0
"""For how many isolates a group counts at most: a group is not many observations, however large it is."""
LEAST = 0.1
"""The least threshold: where resistance is rarely likely, half of the best F1 goes to 0, from which everything is resistant."""


def weights(group: np.ndarray) -> np.ndarray:
    """How much each isolate counts, by the group it is of."""
    _, of, size = np.unique(group, return_inverse=True, return_counts=True)
    return np.minimum(1, MOST / size[of])


def fit(logit: np.ndarray, label: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Platt's line, by Newton's method, with his smoothed targets. Returns slope and offset."""
    positives, negatives = float(weight[label].sum()), float(weight[~label].sum())
    target = np.where(label, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    x = np.stack([logit, np.ones_like(logit)], 1).astype(float)
    start = np.array([1.0, 0.0])
    line = start.copy()
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(x @ line, -40, 40)))
        gradient = x.T @ (weight * (p - target)) + PRIOR @ (line - start)
        step = np.linalg.solve((x * (weight * p * (1 - p))[:, None]).T @ x + PRIOR, gradient)
        line = line - step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return float(max(line[0], 1e-2)), float(line[1])


def apply(logit: np.ndarray, line: tuple[float, float]) -> np.ndarray:
    """The probability of a logit, by slope and offset."""
    return 1 / (1 + np.exp(-np.clip(line[0] * logit + line[1], -40, 40)))


def threshold(probability: np.ndarray, label: np.ndarray, weight: np.ndarray) -> float:
    """The probability from which RESISTANT has the greatest F1: where probabilities hold, half of that F1. At least LEAST."""
    if not label.any() or label.all():
        return 0.5
    best = 0.0
    for candidate in np.linspace(0.1, 0.9, 41):
        said = probability >= candidate
        best = max(best, 2 * float(weight[label & said].sum()) / float(weight[label].sum() + weight[said].sum()))
    return round(max(best / 2, LEAST), 3)
