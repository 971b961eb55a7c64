"""The linear part of a model: of each task a regression of what was measured, and a logistic one of the label."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from . import completion
from .encoding import Encoder, Features, parts

KNEES = (0.0, 15.0, 30.0, 60.0)
"""Where the effect of a score may bend, in points: the bounds of the field's own levels."""
SEEN = 5
"""In how many isolates that a regression learns from a residue has to be."""
LABEL_POINTS = 15.0
"""How many points are a unit of the logistic regression, whose penalty is of 1."""
PENALTY, SCORE_PENALTY, BEND_PENALTY = 3.0, 0.1, 1.0
"""Of squares of the weights of residues, of the score, and of its bends in the regression of what was measured."""


class Linear(nn.Module):
    """Logits of residues and scores, of which those that aren't known are first completed."""

    def __init__(self, features: Features, own: np.ndarray, bends: np.ndarray, offset: np.ndarray, points: np.ndarray, factors):
        super().__init__()
        self.residues, self.tasks = len(features.residues), len(features.tasks)
        self.completion = completion.Completion(factors)
        for name, value in (("own", own), ("bends", bends), ("offset", offset), ("points", points)):
            self.register_buffer(name, torch.from_numpy(value).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of inputs [N, 2 size]: [N, tasks]."""
        values, score, _, known = parts(x, self.residues, self.tasks)
        full = self.completion(values, 1 - known)
        scores = (score + (full - values) @ self.points.T) / 60
        y = full @ self.own.T + self.offset
        for knee, bend in zip(KNEES, self.bends, strict=True):
            y = y + bend * torch.relu(scores - knee / 60)
        return y


def _points(values: np.ndarray, scores: np.ndarray, use: np.ndarray) -> np.ndarray:
    """What a residue adds to a score on average, rules of several residues included [residues]."""
    away = values[:, use] - values[:, use].mean(0)
    points = np.zeros(values.shape[1])
    points[use] = np.linalg.solve(away.T @ away + PENALTY * np.eye(away.shape[1]), away.T @ (scores - scores.mean()))
    return points


def _cut(measure: np.ndarray, resistant: np.ndarray) -> float:
    """The measure that parts the labels with the fewest errors."""
    order = np.argsort(measure, kind="stable")
    sorted_, label = measure[order], resistant[order]
    errors = np.concatenate([[0], np.cumsum(label)]) + np.concatenate([np.cumsum(~label[::-1])[::-1], [0]])
    at = int(errors[1:-1].argmin()) + 1
    return float(sorted_[at - 1] + sorted_[at]) / 2


def _of_measure(x: np.ndarray, curve: np.ndarray, measure: np.ndarray, cut: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Ridge regression: weights of residues and of the curve, and offset, as a logit of being above the cut."""
    a = np.concatenate([x, curve], 1).astype(float)
    penalty = np.array([PENALTY] * x.shape[1] + [SCORE_PENALTY] + [BEND_PENALTY] * (len(KNEES) - 1))
    y = np.minimum(measure, np.percentile(measure, 97))  # an assay's ceiling is no more resistance than somewhat below it
    middle, mean = a.mean(0), y.mean()
    away = a - middle
    weights = np.linalg.solve(away.T @ away + np.diag(penalty), away.T @ (y - mean))
    spread = max(float((y - mean - away @ weights).std()), 0.2)
    slope = 1.7 / spread  # so much steeper is the logistic function than the normal distribution
    split = x.shape[1]
    return weights[:split] * slope, weights[split:] * slope, float(mean - middle @ weights - cut) * slope


def fit(encoder: Encoder, inputs: torch.Tensor, label: np.ndarray, measure: np.ndarray) -> Linear:
    """Fits every task on isolates that are whole. Inputs [N, 2 size], labels and measures [N, tasks] with NaN for unknown."""
    from sklearn.linear_model import LogisticRegression  # here, as processes that train networks alone need not load it

    features = encoder.features
    r, t = len(features.residues), len(features.tasks)
    values, scores, _, known = parts(inputs.numpy(), r, t)
    gene = features.residue_genes()
    own, points, bends, offset = np.zeros((t, r)), np.zeros((t, r)), np.zeros((len(KNEES), t)), np.zeros(t)
    for k, (_, genes) in enumerate(features.genes):
        of = np.isin(gene, genes)
        sequenced = known[:, of].all(1)
        if sequenced.any():
            points[k] = _points(values[sequenced].astype(float), scores[sequenced, k], of)
        has = ~np.isnan(label[:, k])
        resistant = label[has, k] > 0.5
        if not resistant.any() or resistant.all():
            offset[k] = np.log((resistant.sum() + 1) / ((~resistant).sum() + 1))
            continue
        ways = 1
        use = of & (values[has].sum(0) >= SEEN)
        model = LogisticRegression(max_iter=300).fit(np.c_[values[has][:, use], scores[has, k] / LABEL_POINTS], resistant)
        own[k, use] = model.coef_[0, :-1]
        bends[0, k] = model.coef_[0, -1] * 60 / LABEL_POINTS
        offset[k] = model.intercept_[0]
        both = has & ~np.isnan(measure[:, k])
        if (label[both, k] > 0.5).any() and not (label[both, k] > 0.5).all():
            ways = 2
            cut = _cut(measure[both, k], label[both, k] > 0.5)
            rows = ~np.isnan(measure[:, k])
            use = of & (values[rows].sum(0) >= SEEN)
            curve = np.stack([np.maximum(scores[rows, k] - knee, 0) / 60 for knee in KNEES], 1)
            weights, bend, constant = _of_measure(values[rows][:, use], curve, measure[rows, k], cut)
            own[k, use] += weights
            bends[:, k] += bend
            offset[k] += constant
        own[k], bends[:, k], offset[k] = own[k] / ways, bends[:, k] / ways, offset[k] / ways
    factors = completion.fit(values, known, gene)
    return Linear(features, own, bends, offset, points, factors)
