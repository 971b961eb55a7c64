"""What a model is compared with: the field's rules, a forest, and a logistic regression of mutations and the score by rule."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from .encoding import Encoder, parts

RULE = 30.0
"""The score from which rules are taken to say resistant."""
TREES = 100
SEEN = 5
NAMES = {"rules": "rules alone", "forest": "random forest", "logistic": "rules and logistic regression"}


def judge(
    encoder: Encoder, learn: torch.Tensor, label: np.ndarray, asked: list[torch.Tensor], seed: int
) -> dict[str, list[np.ndarray]]:
    """Learns from inputs [N, 2 size] and labels [N, tasks], and judges other inputs: by name, of each [N, tasks].

    Rules give a score, the others a probability. None of them knows of missing codons: to them these are unchanged.
    """
    features = encoder.features
    r, t = len(features.residues), len(features.tasks)
    gene = features.residue_genes()
    values, scores, *_ = parts(learn.numpy(), r, t)
    others = [parts(x.numpy(), r, t)[:2] for x in asked]
    said = {name: [np.full((len(x), t), np.nan) for x in asked] for name in NAMES}
    for k, (_, genes) in enumerate(features.genes):
        has = ~np.isnan(label[:, k])
        y = label[has, k] > 0.5
        use = np.isin(gene, genes) & (values[has].sum(0) >= SEEN)
        forest = logistic = None
        common = y.mean() if len(y) else np.nan  # what is said without a model
        if y.any() and not y.all():
            if use.any():
                forest = RandomForestClassifier(TREES, random_state=seed).fit(values[has][:, use], y)
            logistic = LogisticRegression(max_iter=1000).fit(np.c_[values[has][:, use], scores[has, k]], y)
        for i, (x, score) in enumerate(others):
            said["rules"][i][:, k] = score[:, k]
            said["forest"][i][:, k] = forest.predict_proba(x[:, use])[:, 1] if forest else common
            said["logistic"][i][:, k] = logistic.predict_proba(np.c_[x[:, use], score[:, k]])[:, 1] if logistic else common
    return said
