"""Command line: ``python -m biomarker_train COMMAND``."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .processes import Processes

log = logging.getLogger("biomarker_train")


def main(arguments: list[str] | None = None) -> int:
    """Runs one command. Returns the exit status: 0 done, 1 failed (2, usage, is argparse's)."""
    parser = argparse.ArgumentParser(prog="biomarker_train", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run, text, folders in (
        ("evaluate", _evaluate, "cross-validate a recipe, print its table and write its report", ("data", "work")),
        ("train", _train, "train on all isolates and write the model", ("data", "work", "model")),
        ("all", _all, "evaluate, then train", ("data", "work", "model")),
    ):
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        sub.add_argument("recipe", type=Path, help="recipe (TOML)")
        for folder in folders:
            what = {
                "data": "folder that the recipe's paths start from",
                "work": "checkpoints and report; what lies there is gone on with: take another folder for another recipe",
                "model": "folder of the model to write",
            }
            sub.add_argument(f"--{folder}", type=Path, required=True, help=what[folder])
        sub.add_argument(
            "--devices",
            default="cpu",
            help="where networks are trained: cpu (default), cuda (all GPUs), cuda:0,1 or auto (GPUs, if any)",
        )
        sub.add_argument("--processes", type=int, default=1, help="on processor cores: how many share each batch (default 1)")
        sub.add_argument(
            "--precision", choices=("fp32", "bf16"), help="of inner values (default: bf16 on GPUs that have it, else fp32)"
        )
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        options.run(options)
    except (OSError, ValueError, RuntimeError) as fault:
        print(f"biomarker_train {options.command}: {fault}", file=sys.stderr)
        return 1
    return 0


def _processes(options: argparse.Namespace) -> Processes:
    """Where networks are trained."""
    from . import devices
    from .processes import Processes, one_thread

    one_thread()
    return Processes(devices.chosen(options.devices, options.processes), options.precision)


def _evaluate(options: argparse.Namespace) -> None:
    with _processes(options) as processes:
        _evaluate_on(options, processes)


def _evaluate_on(options: argparse.Namespace, processes: Processes) -> None:
    from . import evaluation
    from .recipe import Recipe

    report = evaluation.evaluate(Recipe.load(options.recipe), options.data, options.work, processes)
    evaluation.write(report, options.work)
    print(evaluation.text(report), end="")


def _train(options: argparse.Namespace) -> None:
    with _processes(options) as processes:
        _train_on(options, processes)


def _train_on(options: argparse.Namespace, processes: Processes) -> None:
    import torch

    from . import export, training
    from .encoding import Encoder
    from .recipe import Recipe

    recipe = Recipe.load(options.recipe)
    table = recipe.table(options.data)
    terms, left_out = recipe.terms(options.data)
    if left_out:
        log.info("conditions that are not in residues are left out: %s", ", ".join(left_out))
    features = recipe.features(table, terms)
    model = training.train(features, table.isolates, recipe.shape, recipe.settings, options.work / "whole", processes)
    encoder = Encoder(features)
    present, known = encoder.present(table.isolates[:200])
    examples = encoder.inputs(present, encoder.leave_out(known, torch.Generator().manual_seed(0)))
    export.write(recipe, table, features, model, options.model, examples)
    log.info("%s is written", options.model)


def _all(options: argparse.Namespace) -> None:
    with _processes(options) as processes:
        _evaluate_on(options, processes)
        _train_on(options, processes)


if __name__ == "__main__":
    sys.exit(main())
