"""Command line: ``python -m basecall_train COMMAND``."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from pathlib import Path

from .recipe import Recipe

log = logging.getLogger("basecall_train")

PRECISIONS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""The names that PyTorch has for them."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one command. Returns the exit status: 0 done, 1 failed (2, usage, is argparse's)."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        options.run(options)
    except (OSError, ValueError, RuntimeError) as fault:
        print(f"basecall_train {options.command}: {fault}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="basecall_train", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, run, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        sub.add_argument("recipe", type=Path, help="recipe (TOML)")
        return sub

    def folders(sub: argparse.ArgumentParser, *wanted: str) -> None:
        texts = {
            "data": "folder that the recipe's paths start from",
            "work": "folder for prepared data and checkpoints (some hundred megabytes)",
            "model": "folder of the model to write or judge",
        }
        for name in wanted:
            sub.add_argument(f"--{name}", type=Path, required=True, help=texts[name])

    preparing = command("prepare", _prepare, "turn recordings into training data")
    folders(preparing, "data", "work")
    preparing.add_argument("--pore", type=Path, help="the engine's program, for sources that it simulates")
    train = command("train", _train, "train, or go on training, on prepared data")
    folders(train, "work")
    train.add_argument(
        "--start",
        type=Path,
        help="checkpoint of another recipe, or exported network of any width, to start from, "
        "if there is none in the work folder (default: what the recipe begins with)",
    )
    train.add_argument("--device", default="auto", help="auto, cpu, cuda (all GPUs) or cuda:0,1 (default: %(default)s)")
    train.add_argument(
        "--precision",
        choices=("auto", *PRECISIONS),
        default="auto",
        help="of the network's inner values; auto: what is fastest",
    )
    train.add_argument("--loaders", type=int, help="processes that make batches (default: all cores but one with a GPU, else none)")
    folders(command("export", _export, "write the averaged network and its manifest"), "work", "model")
    evaluate = command("evaluate", _evaluate, "judge a model, calibrate its qualities, write its card")
    folders(evaluate, "data", "model")
    pores = command("pore-model", _pore_model, "measure levels, spreads and dwell times of 6-mers on prepared data")
    folders(pores, "work")
    pores.add_argument("--out", type=Path, required=True, help="table to write; its card goes beside it as README.md")
    pores.add_argument("--data", type=Path, help="folder that the recipe's paths start from, for the recordings' calibration to pA")
    pores.add_argument("--published", type=Path, help="table to compare with (columns kmer, level_mean, level_stdv, sd_mean)")
    pores.add_argument("--samples", type=float, default=0, help="samples with known bases to use of each source (default: all)")
    pores.add_argument(
        "--rounds", type=int, default=12, help="rounds of alignment and measurement, after the coarse ones (default 12)"
    )
    everything = command("all", _all, "from recordings to a model with its card")
    folders(everything, "data", "work", "model")
    for judging in (evaluate, everything):
        judging.add_argument(
            "--pore", type=Path, help="the engine's program, to judge its calls; CRF models and simulated sources need it"
        )
    everything.set_defaults(start=None, device="auto", precision="auto", loaders=None)
    return parser


def _prepare(options: argparse.Namespace) -> None:
    from .store import prepare

    prepare(Recipe.load(options.recipe), options.data, options.work, options.pore)


def _train(options: argparse.Namespace) -> None:
    import torch

    from . import export
    from .devices import chosen
    from .loading import Loader
    from .store import TEACHER, Sampler
    from .training import Trainer
    from .watched import watched

    torch.set_num_threads(1)  # the trainer's workers are what runs in parallel
    recipe = Recipe.load(options.recipe)
    devices = chosen(options.device)
    loaders = options.loaders
    if loaders is None:
        loaders = 0 if devices[0].type == "cpu" else max(1, os.cpu_count() - 1)
    sampler = Sampler(recipe, options.work)
    precision = getattr(torch, PRECISIONS[options.precision]) if options.precision in PRECISIONS else None
    loader = Loader(sampler, loaders)
    trainer = Trainer(recipe, sampler, devices, precision, loader, options.work / TEACHER)
    checkpoint = options.work / "checkpoint.pt"
    if checkpoint.is_file():
        trainer.load(checkpoint)
        log.info("going on from step %d", trainer.step)
    elif options.start and options.start.suffix != ".onnx":
        trainer.load(options.start, whole_budget=True)
    elif options.start:
        trainer.begin(export.read(options.start))
    elif recipe.training.begins:
        trainer.begin(export.read_mixture(recipe.training.begins))
    stops: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: stops.append(received))
    try:
        trainer.run(checkpoint, stopped=lambda: bool(stops), watched=watched(recipe, options.work))
    finally:
        loader.close()
    if stops:
        raise RuntimeError(f"stopped at step {trainer.step}; the same command goes on from there")


def _export(options: argparse.Namespace) -> None:
    from . import export, listener, progress
    from .network import favour_blank, mixture
    from .store import TEACHER
    from .training import load_average
    from .widen import lengthened

    recipe = Recipe.load(options.recipe)
    options.model.mkdir(parents=True, exist_ok=True)
    manifest = recipe.manifest
    network = load_average(options.work / "checkpoint.pt", options.work / TEACHER)
    if recipe.shape.hears:  # is no model: a mentor
        listener.write(network, options.model / manifest.file)
        return
    if others := recipe.training.exported_with:
        named = [(lengthened(export.read(Path(name)), network.shape.state_length), share) for name, share in others.items()]
        network = mixture([(network, 1 - sum(others.values())), *named])
    if recipe.training.blank:
        favour_blank(network, recipe.training.blank)
    export.write(network, options.model / manifest.file, options.model / manifest.half_file)
    manifest.sealed(options.model).write(options.model)
    table = options.work / progress.NAME
    if table.is_file():
        progress.draw(progress.read(table), f"Training of {recipe.manifest.name}", options.model / progress.PICTURE)


def _evaluate(options: argparse.Namespace) -> None:
    from .card import write_card
    from .evaluation import evaluate_recipe, too_bad

    recipe = Recipe.load(options.recipe)
    if recipe.shape.hears:
        raise ValueError(f"{options.recipe}: {recipe.manifest.name} hears another network, and is a mentor, not a model to judge")
    judged = evaluate_recipe(recipe, options.data, options.model, options.pore)
    write_card(recipe, judged, options.model, by_engine=options.pore is not None)
    if fault := too_bad(recipe, judged[1]):
        raise ValueError(fault)


def _pore_model(options: argparse.Namespace) -> None:
    from .pore_card import measure_recipe, write_card
    from .pore_table import Published

    if options.rounds < 1 or options.samples < 0:
        raise ValueError("--rounds must be 1 or more, --samples not negative")
    published = Published.read(options.published) if options.published else None
    options.out.parent.mkdir(parents=True, exist_ok=True)
    result = measure_recipe(Recipe.load(options.recipe), options.work, int(options.samples), options.rounds, options.data)
    result.table.write(options.out)
    write_card(result, options.out, published)


def _all(options: argparse.Namespace) -> None:
    for step in (_prepare, _train, _export):
        step(options)
    if not Recipe.load(options.recipe).shape.hears:
        _evaluate(options)


if __name__ == "__main__":
    sys.exit(main())
