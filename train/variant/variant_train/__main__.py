"""Command line: ``python -m variant_train COMMAND``."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
from pathlib import Path

from .recipe import Recipe

log = logging.getLogger("variant_train")

CHECKPOINT = "checkpoint.pt"


def main(arguments: list[str] | None = None) -> int:
    """Runs one command. Returns the exit status: 0 done, 1 failed (2, usage, is argparse's)."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        options.run(options)
    except (OSError, ValueError, RuntimeError) as fault:
        print(f"variant_train {options.command}: {fault}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="variant_train", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, run, text: str, *wanted: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        sub.add_argument("recipe", type=Path, help="recipe (TOML)")
        texts = {
            "data": "folder that the recipe's paths start from",
            "work": "folder for calls, examples and checkpoints (some gigabytes)",
            "model": "folder of the model to write or judge",
        }
        for folder in wanted:
            if folder in texts:
                sub.add_argument(f"--{folder}", type=Path, required=True, help=texts[folder])
        if "programs" in wanted:
            sub.add_argument("--pore", type=Path, default=Path("bin/pore"), help="program pore (default bin/pore)")
            sub.add_argument(
                "--extract",
                type=Path,
                default=Path("bin/examples"),
                help="program of train/variant/examples (default bin/examples)",
            )
            sub.add_argument(
                "--scale", type=Path, default=Path("bin/profile"), help="program of train/variant/profile (default bin/profile)"
            )
            sub.add_argument("--workers", type=int, default=2, help="worlds made at a time (default 2)")
        return sub

    command("prepare", _prepare, "turn reads into labelled examples", "data", "work", "programs")
    train = command("train", _train, "train, or go on training, on prepared examples", "work")
    train.add_argument(
        "--start",
        type=Path,
        help="what to start from, if there is no checkpoint in the work folder: that of another recipe, or the model.onnx of "
        "networks of the same number and shape",
    )
    command("export", _export, "write the averaged network, calibrate it, write its manifest", "work", "model")
    command("evaluate", _evaluate, "judge a model on the recipe's sets and write its card", "data", "work", "model", "programs")
    command(
        "calibrate",
        _calibrate,
        "give sets of reads curves of their own where these are better",
        "data",
        "work",
        "model",
        "programs",
    )
    everything = command("all", _all, "from reads to a model with its card", "data", "work", "model", "programs")
    everything.set_defaults(start=None)
    return parser


def _prepare(options: argparse.Namespace) -> None:
    from .store import Programs, prepare

    programs = Programs(options.pore, options.extract, options.scale)
    prepare(Recipe.load(options.recipe), options.data, options.work, programs, workers=options.workers)


def _train(options: argparse.Namespace) -> None:
    import torch

    from . import export, layout
    from .store import Sampler, held_out
    from .training import HELD_OUT, Trainer

    torch.set_num_threads(1)  # the trainer's workers are what runs in parallel
    stops: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: stops.append(received))
    whole = Recipe.load(options.recipe)
    trainings = whole.trainings(options.work)
    exported = []
    if options.start and options.start.suffix == ".onnx":
        exported = export.read(options.start, whole.shape, len(trainings))
    for i, (name, recipe, folder) in enumerate(trainings):
        folder.mkdir(parents=True, exist_ok=True)
        sampler = Sampler(recipe, options.work)
        trainer = Trainer(recipe, sampler, held_out(recipe, options.work))
        checkpoint = folder / CHECKPOINT
        if checkpoint.is_file():
            trainer.load(checkpoint)
            log.info("going on from step %d", trainer.step)
        elif exported:
            trainer.start_from(exported[i])
        elif options.start:
            trainer.load(options.start, whole_budget=True)
        log.info("%s%d examples to learn from", f"{name}: " if name else "", sampler.examples)
        with (folder / "curve.jsonl").open("a") as curve:

            def observe(step: int, seconds: float, losses, held_out: float, curve=curve) -> None:
                record = {"step": step, "seconds": round(seconds, 1)} | {head: getattr(losses, head) for head in layout.HEADS}
                record[HELD_OUT] = held_out
                curve.write(json.dumps(record) + "\n")
                curve.flush()

            trainer.run(checkpoint, stopped=lambda: bool(stops), observe=observe)
        if stops:
            raise RuntimeError(f"stopped at step {trainer.step}; the same command goes on from there")


def _export(options: argparse.Namespace) -> None:
    from . import calibration, export, manifest
    from .store import VALIDATION, parts
    from .training import load_together

    recipe = Recipe.load(options.recipe)
    options.model.mkdir(parents=True, exist_ok=True)
    network = load_together([folder / CHECKPOINT for _, _, folder in recipe.trainings(options.work)])
    held_out = parts(recipe, options.work, VALIDATION)
    first = max(held_out, key=lambda part: len(part.rows))
    export.write(network, options.model / manifest.NETWORK, first.examples[first.rows[:67]].astype("float32"))
    judged = calibration.judge(network, held_out, recipe.nature)
    curves = calibration.fit(judged)
    manifest.write(recipe, curves, options.model)
    from .card import write_validation

    write_validation(recipe, judged, curves, options.work)


def _evaluate(options: argparse.Namespace) -> None:
    from .card import write_card
    from .evaluation import evaluate

    recipe = Recipe.load(options.recipe)
    results = evaluate(recipe, options.data, options.work, options.model, options.pore)
    write_card(recipe, results, options.work, options.model)


def _calibrate(options: argparse.Namespace) -> None:
    from .sets import Plan, calibrate
    from .store import Programs

    programs = Programs(options.pore, options.extract, options.scale)
    calibrate(Plan.load(options.recipe), options.data, options.work, options.model, programs, options.workers)


def _all(options: argparse.Namespace) -> None:
    for step in (_prepare, _train, _export, _evaluate):
        step(options)


if __name__ == "__main__":
    sys.exit(main())
