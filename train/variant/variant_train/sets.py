"""Curves of their own for sets of reads.

Problem: the curves of a manifest were fitted over the examples of all basecallers together. Reads of one chemistry and tier may
deserve more trust than that, or less.

Strategy: for each set of the manifest, worlds are made of its reads, or of their substitutes, in two parts that share neither
positions nor genomes. Curves are fitted on the one part as :mod:`.calibration` fits the shared ones, and evaluated on the other
beside these. A set has a curve of its own for a type and ploidy only if that is better on the part it was not fitted on: by log
loss in nearly all resamples of worlds, and none the worse by Brier score, by expected calibration error and by false calls. What
remains is shared. How sure the number of copies is (gq) stays as the shared curve has it.

A plan may also ask for rates of errors that are expected of a set's reads before a region's own are counted (`errors = true`).
They are counted on simulated reads of the profiles of the sources that fit, over pieces without variants. Worlds are then made
with them, and the set's curves fitted and evaluated on these. The set gets the rates only if alleles of the samples that
evaluate cost fewer nats with rates and curves than without, and as many are found.
"""

from __future__ import annotations

import json
import logging
import re
import tomllib
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from . import layout
from .calibration import EDGES, PLOIDIES, TYPES, Curve, Judged, applied, fit, judge
from .manifest import MANIFEST, NETWORK, curve_table
from .recipe import Basecaller, Nature, RealSource, SimulatedSource, frozen
from .store import AMBIGUOUS, Part, Programs, prepare, source_folder, world_folder
from .worlds import without_variants

log = logging.getLogger(__name__)

LEAST = 50
"""True and false alleles that a curve is evaluated on at least."""
RESAMPLES = 1000
SURE = 0.99
"""Share of the resamples in which the own curve must have the lower log loss: some 25 curves are held against shared ones."""
CALLED = 9.0
"""QUAL from which on false calls are counted."""
FIGURES = "sets.json"


@dataclass(frozen=True)
class SetPlan:
    """How the curves of one set of the manifest are fitted and evaluated."""

    name: str
    fit: tuple[str, ...]
    """Names of sources."""
    judge: tuple[str, ...]
    data: str
    """What the set rests on, for people."""
    simulated: bool = False
    """All of that is simulated."""
    guessed: bool = False
    """No such reads were ever measured: their substitutes give figures, and change no curve."""
    errors: bool = False
    """Rates of errors of its own are tried."""

    def __post_init__(self) -> None:
        if not self.fit or not self.judge or set(self.fit) & set(self.judge):
            raise ValueError(f"set {self.name}: fit and judge must name sources, and none twice")


@dataclass(frozen=True)
class Plan:
    """A parsed file of plans."""

    nature: Nature
    basecallers: tuple[Basecaller, ...]
    real: tuple[RealSource, ...]
    simulated: tuple[SimulatedSource, ...]
    sets: tuple[SetPlan, ...]

    @property
    def sources(self) -> tuple[RealSource | SimulatedSource, ...]:
        """All of them."""
        return (*self.real, *self.simulated)

    @classmethod
    def load(cls, path: Path) -> Plan:
        """Reads and checks a file of plans."""
        with path.open("rb") as stream:
            table = tomllib.load(stream)
        try:
            plan = cls(
                nature=Nature(**table.get("nature", {})),
                basecallers=tuple(Basecaller(**one) for one in table.get("basecaller", [])),
                real=tuple(RealSource(**frozen(one)) for one in table.get("real", [])),
                simulated=tuple(SimulatedSource(**frozen(one)) for one in table.get("simulated", [])),
                sets=tuple(SetPlan(**frozen(one)) for one in table["set"]),
            )
        except KeyError as missing:
            raise ValueError(f"{path}: key {missing} is missing") from missing
        except (TypeError, ValueError) as fault:
            raise ValueError(f"{path}: {fault}") from fault
        names = [source.name for source in plan.sources]
        simulated = {source.name for source in plan.simulated}
        for one in plan.sets:
            if one.errors and not {*one.fit, *one.judge} <= simulated:
                raise ValueError(f"{path}: set {one.name}: errors are counted on simulated reads, and some of its sources are real")
            if unknown := {*one.fit, *one.judge} - set(names):
                raise ValueError(f"{path}: set {one.name}: no source {', '.join(sorted(unknown))}")
        if len(set(names)) < len(names):
            raise ValueError(f"{path}: two sources have the same name")
        return plan


class Exported:
    """A network of a model's folder, called as one of :mod:`.network` is."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(folder / NETWORK, options, providers=["CPUExecutionProvider"])

    def __call__(self, examples: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self._session.run(["scores"], {"examples": examples.numpy()})[0])


@dataclass(frozen=True)
class Figures:
    """The quality of an own curve and the shared one on the evaluation examples."""

    mode: str
    type: str
    fitted: int
    """True alleles that the own curve was fitted on."""
    present: int
    absent: int
    log_loss: tuple[float, float]
    """Nats per example of a natural sample, shared and own, as all pairs here."""
    brier: tuple[float, float]
    calibration: tuple[float, float]
    """Expected calibration error."""
    false: tuple[int, int]
    """False alleles of CALLED and more."""
    found: tuple[int, int]
    sure: float
    """Share of resamples of worlds in which the own curve has the lower log loss."""

    @property
    def own(self) -> bool:
        """Says whether the set has a curve of its own."""
        return (
            self.sure >= SURE
            and self.brier[1] <= self.brier[0]
            and self.calibration[1] <= self.calibration[0]
            and self.false[1] <= self.false[0]
        )


def calibrate(plan: Plan, data: Path, work: Path, folder: Path, programs: Programs, workers: int = 2) -> dict[str, list[Figures]]:
    """Makes the worlds, fits and evaluates the curves of every set, and writes them into the model's manifest and card."""
    prepare(plan, data, work, programs, workers=workers)
    network = Exported(folder)
    text = (folder / MANIFEST).read_text()
    manifest = tomllib.loads(text)
    known = [one["name"] for one in manifest.get("reads", [])]
    if unknown := {one.name for one in plan.sets} - set(known):
        raise ValueError(f"{folder / MANIFEST}: no set {', '.join(sorted(unknown))}; it has {', '.join(known)}")
    shared = shared_curves(manifest)
    worlds = {source.name: _judged(network, plan, source, work) for source in plan.sources}
    figures, curves, errors, tried = {}, {}, {}, {}
    for one in plan.sets:
        figures[one.name], curves[one.name] = _fitted(one, shared, worlds)
        if one.errors:
            rates = measured(one, plan, data, work, programs)
            with_rates = _with(rates, one, plan, data, work, programs, network, workers)
            figures_with, curves_with = _fitted(one, shared, with_rates)
            tried[one.name] = Rates(
                *(outcome(shared, some, [w for name in one.judge for w in of[name]])
                  for some, of in ((curves[one.name], worlds), (curves_with, with_rates)))
            )  # fmt: skip
            log.info("%s: %s", one.name, tried[one.name])
            if tried[one.name].own and not one.guessed:
                figures[one.name], curves[one.name], errors[one.name] = figures_with, curves_with, tomllib.loads(rates)
    table = {name: [asdict(f) for f in some] for name, some in figures.items()} | {
        "errors": {n: asdict(t) for n, t in tried.items()}
    }
    (work / FIGURES).write_text(json.dumps(table, indent=1) + "\n")
    (folder / MANIFEST).write_text(rewritten(text, manifest, plan, curves, errors))
    card = folder / "README.md"
    card.write_text(with_section(card.read_text(), section(manifest, plan, figures, tried)))
    return figures


def _fitted(
    one: SetPlan, shared: dict[tuple[str, str], Curve], worlds: dict[str, list[Judged]]
) -> tuple[list[Figures], list[Curve]]:
    """Fits a set's curves and returns what they are worth, and those that are its own."""
    own = fit(joined([world for name in one.fit for world in worlds[name]]))
    figures = compare(own, shared, [world for name in one.judge for world in worlds[name]])
    for f in figures:
        log.info("%s, %s %s: log loss %.5f shared, %.5f own: %s", one.name, f.mode, f.type, *f.log_loss, _verdict(f))
    chosen = {(f.mode, f.type) for f in figures if f.own and not one.guessed}
    return figures, [replace(c, gq=shared[c.mode, c.type].gq) for c in own if (c.mode, c.type) in chosen]


COUNTED = 300_000
"""Bases of a genome that a profile's rates are counted on."""
COUNTED_DEPTH = 15


def measured(one: SetPlan, plan: Plan, data: Path, work: Path, programs: Programs) -> str:
    """Returns the rates of errors of a set's reads, as `examples errors` writes them: the mean of the profiles of its sources."""
    rates = []
    for source in (s for s in plan.simulated if s.name in one.fit):
        for profile in source.profiles:
            folder = source_folder(work / "rates", source) / profile.replace("/", "_")
            out = folder / "errors.toml"
            if not out.is_file():
                log.info("counting errors of %s", profile)
                out.write_text(without_variants(source, profile, data / source.genome, programs, COUNTED, COUNTED_DEPTH, folder))
            rates.append(tomllib.loads(out.read_text()))
    return rates_table(mean_rates(rates))


def mean_rates(rates: list[dict]) -> dict:
    """Returns the mean of tables of rates."""
    return {key: np.mean([one[key] for one in rates], axis=0).round(6).tolist() for key in rates[0]}


def rates_table(rates: dict) -> str:
    """Returns rates as TOML."""
    return "".join(f"{key} = {value}\n" for key, value in rates.items())


def _with(
    rates: str, one: SetPlan, plan: Plan, data: Path, work: Path, programs: Programs, network: Exported, workers: int
) -> dict[str, list[Judged]]:
    """Makes the worlds of a set once more, with rates that are expected of its reads, and returns the network's scores for them."""
    apart = work / "with-errors" / f"{one.name}-{zlib.crc32(rates.encode()):08x}"
    apart.mkdir(parents=True, exist_ok=True)
    path = apart / "errors.toml"
    path.write_text(rates)
    own = replace(plan, real=(), simulated=tuple(s for s in plan.simulated if s.name in {*one.fit, *one.judge}), sets=(one,))
    prepare(own, data, apart, programs, workers=workers, errors=path)
    return {source.name: _judged(network, own, source, apart) for source in own.sources}


@dataclass(frozen=True)
class Outcome:
    """What curves are worth on the samples that evaluate a set."""

    nats: float
    """Log loss over all alleles of a natural sample, those that the caller doesn't put to the network left out."""
    found: int
    """True alleles of CALLED and more."""
    false: int


@dataclass(frozen=True)
class Rates:
    """What rates of errors of its own are worth to a set."""

    without: Outcome
    own_rates: Outcome

    @property
    def own(self) -> bool:
        """Says whether the set has rates of its own."""
        return self.own_rates.nats < self.without.nats and self.own_rates.found >= self.without.found


def outcome(shared: dict[tuple[str, str], Curve], own: list[Curve], worlds: list[Judged]) -> Outcome:
    """Evaluates a set's curves, and shared ones where it has none, on worlds. Mixtures are left out, as in compare."""
    chosen = shared | {(c.mode, c.type): c for c in own}
    nats, found, false = 0.0, 0, 0
    every = joined(worlds)
    for (mode, kind), curve in chosen.items():
        if mode == "mixture":
            continue
        some = every.chosen((every.labels["mode"] == layout.MODES.index(mode)) & (every.type == TYPES.index(kind)))
        if not len(some.labels):
            continue
        present, qual = some.labels["copies"] > 0, applied(curve.qual, some.qual)
        nats += float((some.weight * log_loss(qual, present)).sum())
        found += int((qual[present] >= CALLED).sum())
        false += int((qual[~present] >= CALLED).sum())
    return Outcome(nats, found, false)


def _judged(network: Exported, plan: Plan, source: RealSource | SimulatedSource, work: Path) -> list[Judged]:
    """Returns what the network says of each world of a source."""
    out = []
    for n in range(source.worlds):
        folder = world_folder(work, source, source.seed + n)
        labels = np.load(folder / "labels.npy")
        rows = np.flatnonzero(labels["copies"] != AMBIGUOUS)
        if len(rows):
            examples = np.load(folder / "examples.npy", mmap_mode="r")
            out.append(judge(network, [Part(source, examples, labels, rows)], plan.nature))
    return out


def joined(worlds: list[Judged]) -> Judged:
    """Returns the examples of worlds together."""
    return Judged(
        *(np.concatenate([getattr(w, name) for w in worlds]) for name in ("copies", "labels", "weight", "source", "type"))
    )


def shared_curves(manifest: dict) -> dict[tuple[str, str], Curve]:
    """Returns the curves of a manifest by mode and type."""
    modes = {ploidy: mode for mode, ploidy in PLOIDIES.items()}
    out = {}
    for one in manifest.get("calibration", []):
        mode = modes[one["ploidy"]]
        points = [tuple(tuple(point) for point in one.get(key, [])) for key in ("qual", "gq")]
        out[mode, one["type"]] = Curve(one["type"], mode, *points, 0)
    return out


def compare(own: list[Curve], shared: dict[tuple[str, str], Curve], worlds: list[Judged]) -> list[Figures]:
    """Evaluates curves beside the shared ones, on worlds that they were not fitted on. Mixtures are too few to evaluate."""
    out = []
    for curve in own:
        if curve.mode == "mixture" or (curve.mode, curve.type) not in shared:
            continue
        mode, kind = layout.MODES.index(curve.mode), TYPES.index(curve.type)
        some = [w.chosen((w.labels["mode"] == mode) & (w.type == kind)) for w in worlds]
        some = [w for w in some if len(w.labels)]
        if not some:
            continue
        every = joined(some)
        present = every.labels["copies"] > 0
        if min(present.sum(), (~present).sum()) < LEAST:
            continue
        of_world = np.repeat(np.arange(len(some)), [len(w.labels) for w in some])
        shared_one = shared[curve.mode, curve.type]
        out.append(_figures(curve, shared_one, every, present, of_world))
    return out


def _figures(own: Curve, shared: Curve, every: Judged, present: np.ndarray, of_world: np.ndarray) -> Figures:
    """Evaluates a curve beside the shared one; of_world is the index of each example's world."""
    quals = [applied(curve.qual, every.qual) for curve in (shared, own)]
    losses = [log_loss(qual, present) for qual in quals]
    worlds = int(of_world.max()) + 1
    gain = np.bincount(of_world, every.weight * (losses[0] - losses[1]), worlds)
    drawn = np.random.default_rng(1).integers(0, worlds, (RESAMPLES, worlds))

    def mean(values: np.ndarray) -> float:
        return float(np.average(values, weights=every.weight))

    def both(what) -> tuple:
        return what(quals[0]), what(quals[1])

    return Figures(
        own.mode, own.type, own.examples, int(present.sum()), int((~present).sum()),
        log_loss=(mean(losses[0]), mean(losses[1])),
        brier=both(lambda qual: mean((10 ** (-qual / 10) - ~present) ** 2)),
        calibration=both(lambda qual: calibration_error(qual, present, every.weight)),
        false=both(lambda qual: int((qual[~present] >= CALLED).sum())),
        found=both(lambda qual: int((qual[present] >= CALLED).sum())),
        sure=float((gain[drawn].sum(1) > 0).mean()),
    )  # fmt: skip


def log_loss(qual: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Returns the nats that each example costs; its qual gives the probability that its allele is absent."""
    absent = np.clip(10 ** (-qual / 10), 1e-9, 1 - 1e-9)
    return -np.log(np.where(present, 1 - absent, absent))


def calibration_error(qual: np.ndarray, present: np.ndarray, weight: np.ndarray) -> float:
    """Returns the expected calibration error: how far said and observed shares of absent alleles are apart, mean over bins."""
    said, out = 10 ** (-qual / 10), 0.0
    for low, high in zip(EDGES, EDGES[1:], strict=False):
        mask = (qual >= low) & (qual < high)
        out += abs((weight * said)[mask].sum() - weight[mask & ~present].sum())
    return float(out / weight.sum())


READS = "\n[[reads]]\n"


def rewritten(text: str, manifest: dict, plan: Plan, curves: dict[str, list[Curve]], errors: dict[str, dict] | None = None) -> str:
    """Returns a manifest with the curves and rates of sets; what stands ahead of the sets stays to the letter."""
    plans = {one.name: one for one in plan.sets}
    parts = [text[: text.index(READS)].rstrip("\n") + "\n"]
    for one in manifest["reads"]:
        if planned := plans.get(one["name"]):
            one = {**one, "data": planned.data, "simulated": planned.simulated}
            one.pop("calibration", None)
            one.pop("errors", None)
            if rates := (errors or {}).get(one["name"]):
                one["errors"] = rates
            own = curves[one["name"]]
            tables = "".join("\n" + curve_table(curve, "reads.calibration") for curve in own)
        else:
            own = one.get("calibration", [])
            if own:
                raise ValueError(f"set {one['name']} has curves of its own and no plan")
            tables = ""
        models = ", ".join(json.dumps(pattern) for pattern in one["models"])
        lines = [f"{key} = {json.dumps(one[key])}" for key in ("name", "chemistry", "tier")]
        lines += [f"models = [{models}]", f"data = {json.dumps(one['data'], ensure_ascii=False)}"]
        lines += ["simulated = true"] * bool(one.get("simulated")) + ["shared = true"] * (not own)
        if rates := one.get("errors"):
            tables += "\n[reads.errors]\n" + rates_table(rates)
        parts.append(READS + "\n".join(lines) + "\n" + tables)
    return "".join(parts)


HEADING = "## Whose reads it is for\n"


def with_section(card: str, text: str) -> str:
    """Returns a card with another section on whose reads the model is for."""
    if HEADING not in card:
        raise ValueError(f"the card has no section {HEADING.strip('# ')!r}: evaluate the model first")
    before, after = card.split(HEADING, 1)
    rest = re.search(r"^## ", after, re.MULTILINE)
    return before + text + ("\n" + after[rest.start() :] if rest else "")


def _verdict(f: Figures) -> str:
    return "own" if f.own else "shared"


def section(manifest: dict, plan: Plan, figures: dict[str, list[Figures]], tried: dict[str, Rates] | None = None) -> str:
    """Returns the card's section on whose reads the model is for."""
    plans = {one.name: one for one in plan.sets}
    sets = ["| set | basecalling models | rests on | curves of its own |", "|---|---|---|---|"]
    for one in manifest["reads"]:
        planned = plans.get(one["name"])
        own = [f"{f.mode} {f.type}" for f in figures.get(one["name"], []) if f.own and planned and not planned.guessed]
        data = planned.data if planned else one["data"]
        simulated = " (simulated only)" if (planned.simulated if planned else one.get("simulated")) else ""
        patterns = ", ".join(f"`{pattern}`" for pattern in one["models"])
        sets.append(f"| {one['name']} | {patterns} | {data}{simulated} | {', '.join(own) or 'none: shared'} |")
    rows = [
        "| set | alleles | true, false | log loss | Brier | calibration error | false | found | better | curve |",
        "|" + "---|" * 10,
    ]
    for name, some in figures.items():
        for f in some:
            verdict = "guessed: shared" if f.own and plans[name].guessed else _verdict(f)
            pairs = [f"{1000 * a:.3g}, {1000 * b:.3g}" for a, b in (f.log_loss, f.brier, f.calibration)]
            rows.append(
                f"| {name} | {f.mode} {f.type} | {f.present}, {f.absent} | {' | '.join(pairs)} | {f.false[0]}, {f.false[1]} "
                f"| {f.found[0]}, {f.found[1]} | {100 * f.sure:.0f} % | {verdict} |"
            )
    parts = ["| set | fitted on | evaluated on |", "|---|---|---|"]
    by_name = {source.name: source for source in plan.sources}
    for one in plan.sets:
        texts = [", ".join(f"{name} ({by_name[name].worlds} samples)" for name in names) for names in (one.fit, one.judge)]
        parts.append(f"| {one.name} | {texts[0]} | {texts[1]} |")
    tables = ["\n".join(some) for some in (sets, parts, rows)]
    rated = ""
    if tried:
        lines = ["| set | nats | found | false | rates |", "|---|---|---|---|---|"]
        for name, t in tried.items():
            a, b = t.without, t.own_rates
            verdict = "own" if t.own and not plans[name].guessed else "the usual"
            lines.append(f"| {name} | {a.nats:.4g}, {b.nats:.4g} | {a.found}, {b.found} | {a.false}, {b.false} | {verdict} |")
        rated = f"""
Rates of errors that are expected of a set's reads before a region's own are counted (`[reads.errors]`), counted on simulated
reads of the profiles that fit the set. Pairs are samples that evaluate the set with the usual rates and with the set's own,
each with its curves: log loss of all alleles as a natural sample has them, and alleles of `QUAL` {CALLED:g} and more.

{chr(10).join(lines)}
"""
    return f"""{HEADING}
Patterns are CHEMISTRY/TIER/VERSION, or a name; the first that matches counts. Calls from other reads say `ModelMismatch`.

{tables[0]}

A set has a curve of its own for a type of allele and a ploidy only if that is better than the shared one on samples that it was
not fitted on: by log loss in {100 * SURE:.0f} % of {RESAMPLES:,} resamples of samples, and none the worse by Brier score, by
expected calibration error and by false alleles of `QUAL` {CALLED:g} and more. A set of whose reads none were ever measured
(*guessed*) keeps the shared curves: what stands in for its reads on both sides is the same guess. `variant_train calibrate`
repeats it ([train/variant](../../train/variant/README.md#curves-of-their-own)).

{tables[1]}

Each pair is the shared curve and the set's own; losses and errors are thousandths, per allele of a natural sample. *Better* is
the share of resamples in which the own curve has the lower log loss.

{tables[2]}
{rated}"""
