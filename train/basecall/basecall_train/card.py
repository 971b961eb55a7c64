"""The model card: what a model is, what it was made from and how well it does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .evaluation import Result, quality_bins
from .manifest import STAY_SCORE, Manifest
from .progress import PICTURE
from .recipe import Recipe, Source


def write_card(recipe: Recipe, judged: tuple[Manifest, list[Result]], folder: Path, by_engine: bool = False) -> None:
    """Writes ``MODEL_CARD.md`` into the model's folder. by_engine: the calls are the engine's, not greedy ones."""
    manifest, results = judged
    parts = [
        _head(recipe, manifest, (folder / manifest.file).stat().st_size),
        _accuracy(results, by_engine),
        _qualities(recipe, manifest, results, by_engine),
        _origin(recipe),
        _curves(folder),
        *(f"## {heading}\n\n{text.strip()}\n" for heading, text in recipe.notes.items()),
    ]
    (folder / "MODEL_CARD.md").write_text("\n".join(part for part in parts if part))


def _curves(folder: Path) -> str:
    return f"## Curves\n\n![losses, learning rate and speed]({PICTURE})\n" if (folder / PICTURE).is_file() else ""


def _head(recipe: Recipe, manifest: Manifest, size: int) -> str:
    shape, training = recipe.shape, recipe.training
    output = "natural log-probabilities of blank, A, C, G, T (CTC)"
    if shape.state_length:
        output = f"scores of the moves between {shape.state_length}-mers (CRF, as Bonito's; staying scores {STAY_SCORE:g})"
    budget = f"{training.minutes:g} minutes of" if training.minutes else f"{training.steps} steps of"
    start = f"the weights of {training.follows}" if training.follows else "random weights"
    if training.exported_with:
        shares = [f"{100 * share:g} % of {Path(name).stem}" for name, share in training.exported_with.items()]
        start += f"; of the network {' and '.join(shares)}"
    return f"""# {manifest.name} {manifest.version}

{manifest.description}.

| | |
|---|---|
| chemistry, sample rate | {manifest.chemistry.upper()}, {", ".join(f"{rate} Hz" for rate in manifest.sample_rates)} |
| input | `{manifest.input}` float32 [N, 1, T], (raw - median) / (1.4826 MAD), within ±{manifest.clip:g}; T a multiple of {shape.stride} |
| output | `{manifest.output}` float32 [N, T/{manifest.stride}, {shape.scores}], {output} |
| network | convolutions 1→{shape.stem} (9 wide) and {shape.stem}→{shape.width} (19 wide, stride {shape.stride}), {shape.layers} LSTM layers of width {shape.width}, backwards and forwards in turn, each added to its input |
| windows | {manifest.window} samples, {manifest.overlap} shared by neighbours |
| file | {size / 1e6:.2f} MB, fp32, ONNX standard operators |
| training | {budget} `basecall_train` on {training.machine or f"{training.threads} CPU threads"}, from {start} |
"""


def _accuracy(results: list[Result], by_engine: bool) -> str:
    rows = [
        "| reads | aligned | identity mean | median | substitutions | insertions | deletions | in homopolymers |",
        "|" + "---|" * 8,
    ]
    for r in results:
        e = r.errors
        n = e.columns
        rows.append(
            f"| {r.name} | {len(r.identities)} of {r.reads} | {_percent(np.mean(r.identities))} | {_percent(np.median(r.identities))} "
            f"| {_percent(e.substitutions / n)} | {_percent(e.insertions / n)} | {_percent(e.deletions / n)} "
            f"| +{_percent(e.homopolymer_insertions / n)} -{_percent(e.homopolymer_deletions / n)} |"
        )
    table = "\n".join(rows)
    calls = "those of `pore basecall`" if by_engine else "greedy (the best class of every frame)"
    return f"""## Accuracy

None of these reads was trained on. Calls are {calls} and aligned by minimap2 (map-ont). Identity is
matches over alignment columns per read that aligns; errors are per column of all alignments. The last column counts insertions
into and deletions from runs of three equal bases or more.

{table}
"""


def _percent(part: float) -> str:
    return f"{100 * part:.2f} %"


def _qualities(recipe: Recipe, manifest: Manifest, results: list[Result], by_engine: bool) -> str:
    fitted = [result for one, result in zip(recipe.evaluations, results, strict=True) if one.calibrate]
    if not fitted:
        return "## Base qualities\n\nNot calibrated.\n"
    probability = (
        "what the engine takes a base's probability for" if by_engine else "the highest probability of the base in its frames"
    )
    judged = [quality_bins(result, manifest.qualities) for result in results]
    of = [{round(b.predicted): b for b in bins} for bins in judged]
    rows = "\n".join(
        f"| {q} | " + " | ".join(f"{one[q].observed:.1f} ({one[q].bases})" if q in one else "" for one in of) + " |"
        for q in sorted({q for one in of for q in one})
    )
    observed = f"to what was observed on {fitted[0].name}"
    if len(fitted) > 1:
        observed = f"halfway between the lowest and the highest that was observed on {', '.join(one.name for one in fitted)}"
    return f"""## Base qualities

The manifest's curve leads from -10 log10(1 - p), p being {probability}{_neighbours(manifest)}, {observed}.
A base is wrong if it is substituted or inserted. Observed, with the number of bases:

| predicted | {" | ".join(result.name for result in results)} |
|---|{"---|" * len(results)}
{rows}
"""


def _neighbours(manifest: Manifest) -> str:
    """Describes how much the bases around a base count, if they do."""
    if not manifest.quality_neighbours:
        return ""
    share, count = 100 * manifest.quality_neighbour_share, manifest.quality_neighbours
    return f" (the mean of {count} bases on either side counts {share:g} % of it)"


def _joined(source: Source) -> str:
    """Names the networks that join the teacher, if any do."""
    return f", joined by {', '.join(Path(network).stem for network in source.joined_by)}" if source.joined_by else ""


def _origin(recipe: Recipe) -> str:
    rows = ["| use | data | licence |", "|---|---|---|"]
    for source in recipe.sources:
        if source.pore_model:
            of = ", ".join(Path(one).name for one in source.genomes) or "random genomes"
            rows.append(f"| training, simulated | {of} through `{Path(source.pore_model).name}` | as that file |")
            continue
        if source.pieces_of:
            rare = ", those with rare words preferred" if source.balance else ""
            rows.append(
                f"| training, joined anew | pieces of the reads of {', '.join(source.pieces_of)}{rare}{_joined(source)} | as those |"
            )
            continue
        truth = "simulated, teacher only" if source.simulated_from else "teacher only"
        truths = (
            ("genome", source.reference), ("genomes of relatives", source.relatives), ("calls", source.calls),
            ("reads that overlap", source.overlaps), ("alignments with moves", source.moves),
        )  # fmt: skip
        for name, has in truths:
            truth = f"truth: {name}" if has else truth
        truth += _joined(source)
        rows.append(f"| training, {truth} | {source.citation or source.name} | {source.licence or 'unstated'} |")
    for one in recipe.evaluations:
        rows.append(f"| evaluation only | {one.citation or one.name} | {one.licence or 'unstated'} |")
    for network in map(Path, recipe.training.mentors):
        name = network.parent.name if network.stem == "model" else network.stem
        share = 100 * recipe.training.mentored
        rows.append(f"| mentor, for {share:g} % of the chunks | the scores of {name} for them | see there |")
    if recipe.teacher:
        rows.append(
            f"| teacher | frame probabilities of {recipe.teacher.name} ({recipe.teacher_citation or 'uncited'}), none of its weights "
            f"| {recipe.teacher_licence or 'unstated'} |"
        )
    table = "\n".join(rows)
    return f"""## Where it comes from

{table}
"""
