"""Line charts as SVG, without a dependency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
WIDTH, HEIGHT = 420, 280
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 28, 40


@dataclass(frozen=True)
class Line:
    """Points that belong together."""

    label: str
    points: Sequence[tuple[float, float]]


def chart(lines: Sequence[Line], title: str, across: str, up: str, path: Path, diagonal: bool = False) -> None:
    """Writes a chart with linear axes from 0 (from the least value up, if that is far from 0)."""
    xs = [x for line in lines for x, _ in line.points] or [0, 1]
    ys = [y for line in lines for _, y in line.points] or [0, 1]
    x0, x1, y0, y1 = min(0, *xs), max(*xs, 1e-9), min(0, *ys), max(*ys, 1e-9)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM),
        )

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="16" font-size="13">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(across)}</text>',
        f'<text transform="translate(12 {HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(up)}</text>',
    ]
    for i in range(6):
        x, y = x0 + (x1 - x0) * i / 5, y0 + (y1 - y0) * i / 5
        (px, base), (left, py) = place(x, y0), place(x0, y)
        out.append(f'<path d="M{px:.1f} {base:.1f}V{TOP}M{left:.1f} {py:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{px:.1f}" y="{base + 14:.1f}" text-anchor="middle">{x:.3g}</text>')
        out.append(f'<text x="{left - 4:.1f}" y="{py + 4:.1f}" text-anchor="end">{y:.3g}</text>')
    if diagonal:
        top = min(x1, y1)
        (ax, ay), (bx, by) = place(0, 0), place(top, top)
        out.append(f'<path d="M{ax:.1f} {ay:.1f}L{bx:.1f} {by:.1f}" stroke="#888" stroke-dasharray="4"/>')
    for i, line in enumerate(lines):
        colour = COLOURS[i % len(COLOURS)]
        points = "L".join("{:.1f} {:.1f}".format(*place(x, y)) for x, y in line.points)
        if points:
            out.append(f'<path d="M{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        out.append(
            f'<text x="{WIDTH - RIGHT - 4}" y="{TOP + 14 + 13 * i}" text-anchor="end" fill="{colour}">{escape(line.label)}</text>'
        )
    path.write_text("\n".join([*out, "</svg>"]) + "\n")
