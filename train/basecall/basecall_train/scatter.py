"""Scatter plots as SVG, without a dependency."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

WIDTH, HEIGHT = 420, 400
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 28, 40
DOT = 2
"""Pixels; points that fall on one dot are drawn once, which keeps the file small."""


def scatter(x: np.ndarray, y: np.ndarray, title: str, across: str, up: str, path: Path) -> None:
    """Writes a plot of points and their regression line, the axes just wide enough."""
    (x0, x1), (y0, y1) = (_padded(values) for values in (x, y))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(px, py):
        return LEFT + (px - x0) / (x1 - x0) * wide, TOP + (y1 - py) / (y1 - y0) * high

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="16" font-size="13">{escape(title)}</text>',
        f'<text x="{LEFT + wide / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(across)}</text>',
        f'<text transform="translate(12 {TOP + high / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(up)}</text>',
    ]
    for part in np.linspace(0, 1, 6):
        tick_x, tick_y = x0 + part * (x1 - x0), y0 + part * (y1 - y0)
        px, py = place(tick_x, tick_y)
        out.append(f'<path d="M{px:.1f} {TOP}v{high}M{LEFT} {py:.1f}h{wide}" stroke="#ddd"/>')
        out.append(f'<text x="{px:.1f}" y="{TOP + high + 14}" text-anchor="middle">{tick_x:.3g}</text>')
        out.append(f'<text x="{LEFT - 4}" y="{py + 4:.1f}" text-anchor="end">{tick_y:.3g}</text>')
    dots = {(int(a) // DOT * DOT, int(b) // DOT * DOT) for a, b in zip(*place(x, y), strict=True)}
    squares = "".join(f"M{a} {b}h{DOT}v{DOT}h-{DOT}z" for a, b in sorted(dots))
    out.append(f'<path d="{squares}" fill="#0072b2"/>')
    slope, offset = np.polyfit(x, y, 1)
    (ax, ay), (bx, by) = (place(end, np.clip(slope * end + offset, y0, y1)) for end in (x.min(), x.max()))
    out.append(f'<path d="M{ax:.1f} {ay:.1f}L{bx:.1f} {by:.1f}" stroke="#d55e00" stroke-dasharray="4"/>')
    path.write_text("\n".join([*out, "</svg>"]) + "\n")


def _padded(values: np.ndarray) -> tuple[float, float]:
    """Returns the range with a margin of 3 %."""
    low, high = float(np.min(values)), float(np.max(values))
    margin = 0.03 * (high - low) or 0.5
    return low - margin, high + margin
