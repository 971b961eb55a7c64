"""Command line: ``python -m biomarker_train COMMAND``."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

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
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        options.run(options)
    except (OSError, ValueError, RuntimeError) as fault:
        print(f"biomarker_train {options.command}: {fault}", file=sys.stderr)
        return 1
    return 0


def _one_thread() -> None:
    """The same sums whatever the machine; all matrices are too small to gain from more."""
    import threadpoolctl
    import torch

    torch.set_num_threads(1)
    threadpoolctl.threadpool_limits(1)


def _evaluate(options: argparse.Namespace) -> None:
    from . import evaluation
    from .recipe import Recipe

    _one_thread()
    report = evaluation.evaluate(Recipe.load(options.recipe), options.data, options.work)
    evaluation.write(report, options.work)
    print(evaluation.text(report), end="")


def _train(options: argparse.Namespace) -> None:
    import torch

    from . import export, training
    from .encoding import Encoder
    from .recipe import Recipe

    _one_thread()
    recipe = Recipe.load(options.recipe)
    table = recipe.table(options.data)
    terms, left_out = recipe.terms(options.data)
    if left_out:
        log.info("conditions that are not in residues are left out: %s", ", ".join(left_out))
    features = recipe.features(table, terms)
    model = training.train(features, table.isolates, recipe.shape, recipe.settings, options.work / "whole")
    encoder = Encoder(features)
    present, known = encoder.present(table.isolates[:200])
    examples = encoder.inputs(present, encoder.leave_out(known, torch.Generator().manual_seed(0)))
    export.write(recipe, table, features, model, options.model, examples)
    log.info("%s is written", options.model)


def _all(options: argparse.Namespace) -> None:
    _evaluate(options)
    _train(options)


if __name__ == "__main__":
    sys.exit(main())
