"""The manifest beside a network, as package variant/network reads it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from . import layout
from .calibration import Curve
from .recipe import Recipe

NETWORK = "model.onnx"
MANIFEST = "manifest.toml"


def write(recipe: Recipe, curves: list[Curve], folder: Path) -> None:
    """Writes the manifest of the network that lies in folder."""
    digest = hashlib.sha256((folder / NETWORK).read_bytes()).hexdigest()
    parts = [
        f"""format = 1
kind = "variant"
name = "{recipe.name}"
version = "{recipe.version}"
description = "{recipe.description}"
example_version = {layout.VERSION}

[network]
file = "{NETWORK}"
sha256 = "{digest}"
input = "examples"          # float32 [N, 1, {layout.SIZE}]
output = "scores"           # float32 [N, 1, {layout.SCORES}], logits
"""
    ]
    for curve in curves:
        parts.append("\n" + curve_table(curve, "calibration"))
    for reads in recipe.reads:
        models = ", ".join(f'"{pattern}"' for pattern in reads.models)
        parts.append(
            f"""
[[reads]]
name = "{reads.name}"
chemistry = "{reads.chemistry}"
tier = "{reads.tier}"
models = [{models}]
data = "{reads.data}"
{"simulated = true" + chr(10) if reads.simulated else ""}shared = true
"""
        )
    (folder / MANIFEST).write_text("".join(parts))


def curve_table(curve: Curve, key: str) -> str:
    """Returns a curve as an element of a manifest's list of tables."""
    gq = f"gq = {_points(curve.gq)}\n" if curve.gq else ""
    return f"""[[{key}]]{" " * max(1, 28 - len(key) - 4)}# fitted on {curve.examples} examples
type = "{curve.type}"
ploidy = "{curve.ploidy}"
qual = {_points(curve.qual)}
{gq}"""


def _points(points: tuple[tuple[float, float], ...]) -> str:
    return "[" + ", ".join(f"[{x}, {y}]" for x, y in points) + "]"
