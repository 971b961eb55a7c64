"""How good probabilities are: one place for every figure of the report."""

from __future__ import annotations

import numpy as np

BINS = 10


def auc(label: np.ndarray, score: np.ndarray) -> float:
    """The probability that a positive has a higher score than a negative, ties by half; NaN without both."""
    positives, negatives = int(label.sum()), int((~label).sum())
    if not positives or not negatives:
        return float("nan")
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[label].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def calibration_error(label: np.ndarray, probability: np.ndarray) -> float:
    """Expected calibration error: mean distance of probability and frequency over ten bins of equal width, by size."""
    which = np.minimum((probability * BINS).astype(int), BINS - 1)
    total = 0.0
    for b in range(BINS):
        in_bin = which == b
        if in_bin.any():
            total += abs(float(probability[in_bin].mean()) - float(label[in_bin].mean())) * int(in_bin.sum())
    return total / len(label)


def classified(label: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Accuracy, precision, recall and F1 of the positive class."""
    hit = int((label & predicted).sum())
    precision = hit / int(predicted.sum()) if predicted.any() else 0.0
    recall = hit / int(label.sum()) if label.any() else 0.0
    f1 = 2 * precision * recall / (precision + recall) if hit else 0.0
    return {"accuracy": float((label == predicted).mean()), "precision": precision, "recall": recall, "f1": f1}


def judge(label: np.ndarray, probability: np.ndarray, threshold: float = 0.5) -> dict[str, float]:
    """All figures of one task."""
    figures = classified(label, probability >= threshold)
    return figures | {"auc": auc(label, probability), "ece": calibration_error(label, probability)}


def intervals(label, probability, group, measure, rounds: int, seed: int) -> dict[str, tuple[float, float]]:
    """95 % intervals of what measure(label, probability) returns, by drawing groups with replacement."""
    names, of = np.unique(group, return_inverse=True)
    members = [np.flatnonzero(of == i) for i in range(len(names))]
    generator = np.random.default_rng(seed)
    drawn: dict[str, list[float]] = {}
    for _ in range(rounds):
        rows = np.concatenate([members[i] for i in generator.integers(0, len(names), len(names))])
        for name, value in measure(label[rows], probability[rows]).items():
            drawn.setdefault(name, []).append(value)
    return {name: tuple(float(v) for v in np.nanpercentile(values, [2.5, 97.5])) for name, values in drawn.items()}
