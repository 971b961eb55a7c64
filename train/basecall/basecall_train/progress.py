"""How a training run went: a table beside its checkpoint, and a picture of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from html import escape
from pathlib import Path

NAME = "progress.tsv"
"""File of the table, in the folder of the checkpoint."""
PICTURE = "training.svg"
"""File of the picture, in the folder of the model."""


@dataclass(frozen=True)
class Row:
    """Means over the steps since the row before."""

    step: int
    """Steps taken so far."""
    seconds: float
    """Spent so far."""
    divergence: float
    """Nats per frame; 0 with a CRF."""
    surprise: float
    """CTC or CRF loss, nats per frame; 0 while it doesn't count."""
    learning_rate: float
    samples_per_second: float
    identity: float = 0.0
    """Of the averaged weights' calls of the watched chunks, mean of their sets, at the last evaluation; 0 before, and
    without any."""


COLUMNS = tuple(field.name for field in fields(Row))


class Table:
    """The table of a run, written row by row, so that it is there while the run goes on and after a crash."""

    def __init__(self, path: Path, step: int) -> None:
        """Goes on behind the rows up to step: those after the checkpoint that a run goes on from are steps that come again."""
        kept = [row for row in read(path) if row.step <= step] if path.is_file() else []
        self._path = path
        path.write_text("\t".join(COLUMNS) + "\n")
        for row in kept:
            self.add(row)

    def add(self, row: Row) -> None:
        """Appends a row."""
        with self._path.open("a") as stream:
            stream.write("\t".join(f"{value:.6g}" for value in astuple(row)) + "\n")


def read(path: Path) -> list[Row]:
    """Reads a table. A last line that a crash has cut short is left out."""
    head, *lines = path.read_text().split("\n")
    if tuple(head.split("\t")) != COLUMNS:
        raise ValueError(f"{path}: line 1: not the progress of a training run")
    rows = []
    for number, line in enumerate(lines[:-1], 2):
        cells = line.split("\t")
        try:
            rows.append(Row(int(float(cells[0])), *(float(cell) for cell in cells[1:])))
        except (TypeError, ValueError) as fault:
            raise ValueError(f"{path}: line {number}: not a row of {', '.join(COLUMNS)}") from fault
    return rows


WIDTH, PANEL, LEFT, RIGHT, TOP, GAP, BOTTOM = 560, 130, 64, 16, 44, 34, 40
STYLE = (
    "<style>.page{fill:#fff}text{fill:#333}.grid{stroke:#ddd}.a{stroke:#1b6ca8}.b{stroke:#b45309}tspan.a{fill:#1b6ca8;stroke:none}"
    "tspan.b{fill:#b45309;stroke:none}@media(prefers-color-scheme:dark){.page{fill:#14171a}text{fill:#d5d8db}.grid{stroke:#33383d}"
    ".a{stroke:#6cb4ee}.b{stroke:#f0a048}tspan.a{fill:#6cb4ee}tspan.b{fill:#f0a048}}</style>"
)


def draw(rows: Sequence[Row], title: str, path: Path) -> None:
    """Writes the curves of losses, identity if there is any, learning rate and speed over time as an SVG."""
    panels = [
        ("nats per frame", {"divergence": [row.divergence for row in rows], "surprise": [row.surprise for row in rows]}),
        ("%", {"identity of calls of chunks that are not trained on": [100 * row.identity for row in rows]}),
        ("", {"learning rate": [row.learning_rate for row in rows]}),
        ("", {"samples per second": [row.samples_per_second for row in rows]}),
    ]
    if not any(row.identity for row in rows):
        del panels[1]
    minutes = [row.seconds / 60 for row in rows]
    last = max(minutes, default=0) or 1
    height = TOP + len(panels) * PANEL + (len(panels) - 1) * GAP + BOTTOM
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="11" role="img">',
        f'<title>{escape(title)}</title>{STYLE}<rect class="page" width="{WIDTH}" height="{height}"/>',
        f'<text x="{LEFT}" y="18" font-size="14">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{height - 6}" text-anchor="middle">minutes</text>',
    ]
    across = WIDTH - LEFT - RIGHT
    for number, (unit, lines) in enumerate(panels):
        top = TOP + number * (PANEL + GAP)
        shown = {name: values for name, values in lines.items() if any(values)}
        drawn = [value for values in shown.values() for value in values if value]
        least, most = (math.floor(min(drawn)), math.ceil(max(drawn))) if unit == "%" else (0, max(drawn, default=1))
        span = most - least or 1
        for i in range(5):
            x, y = LEFT + across * i / 4, top + PANEL * (1 - i / 4)
            out.append(f'<path class="grid" d="M{x:.1f} {top}v{PANEL}M{LEFT} {y:.1f}h{across}"/>')
            out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{least + span * i / 4:.3g}</text>')
            out.append(f'<text x="{x:.1f}" y="{top + PANEL + 14}" text-anchor="middle">{last * i / 4:.3g}</text>')
        names = ", ".join(f'<tspan class="{kind}">{name}</tspan>' for kind, name in zip("ab", shown, strict=False))
        out.append(f'<text x="{LEFT}" y="{top - 6}">{names}{f" / {unit}" if unit and names else ""}</text>')
        for kind, values in zip("ab", shown.values(), strict=False):
            points = (
                f"{LEFT + minute / last * across:.1f} {top + PANEL * (1 - (value - least) / span):.1f}"
                for minute, value in zip(minutes, values, strict=True)
                if value or (kind == "a" and not least)  # a second loss counts from somewhere on, and identity is evaluated
            )
            path_of = "L".join(points)
            out.append(f'<path class="{kind}" d="M{path_of}h0" fill="none" stroke-width="2" stroke-linecap="round"/>')
    path.write_text("\n".join([*out, "</svg>"]) + "\n")
