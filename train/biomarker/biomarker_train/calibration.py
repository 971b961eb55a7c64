"""From logits to probabilities that hold."""

from __future__ import annotations

import numpy as np

PRIOR = np.diag([4.0, 2.0, 0.5])
"""What holds slope, score's share and offset back, as some observations would: with few labels the network's odds stay."""


def fit(logit: np.ndarray, score: np.ndarray, label: np.ndarray) -> tuple[float, float, float]:
    """Platt's line with the score by rule beside the logit, by Newton's method, with his smoothed targets.

    Problem: where labels are few, the network classifies worse than the rules that the field has settled on.

    Strategy: the line is fitted on judgements of isolates that the network was not trained on, so it sees how far to trust which.

    Returns slope, weight of a point of the score, offset.
    """
    positives, negatives = int(label.sum()), int((~label).sum())
    target = np.where(label, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    x = np.stack([logit, score / 30, np.ones_like(logit)], 1).astype(float)
    start = np.array([1.0, 0.0, 0.0])
    weights = start.copy()
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -40, 40)))
        gradient = x.T @ (p - target) + PRIOR @ (weights - start)
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + PRIOR, gradient)
        size = max(1.0, float(np.abs(step).max()))
        weights = weights - step / size
        if np.abs(step).max() < 1e-9:
            break
    return float(max(weights[0], 1e-2)), float(weights[1] / 30), float(weights[2])


def apply(logit: np.ndarray, line: tuple[float, float]) -> np.ndarray:
    """The probability of a logit, by slope and offset."""
    return 1 / (1 + np.exp(-np.clip(line[0] * logit + line[1], -40, 40)))


def threshold(probability: np.ndarray, label: np.ndarray) -> float:
    """The probability from which RESISTANT has the greatest F1, drawn towards a half where labels are few."""
    if not label.any() or label.all():
        return 0.5
    candidates = np.linspace(0.2, 0.8, 61)
    f1 = np.array([_f1(label, probability >= c) for c in candidates])
    smooth = np.convolve(np.pad(f1, 3, mode="edge"), np.ones(7) / 7, "valid")
    best = float(candidates[int(smooth.argmax())])
    few = min(int(label.sum()), int((~label).sum()))
    return round(0.5 + (best - 0.5) * few / (few + 50), 3)


def _f1(label: np.ndarray, predicted: np.ndarray) -> float:
    return 2 * float((label & predicted).sum()) / max(1.0, float(label.sum() + predicted.sum()))
