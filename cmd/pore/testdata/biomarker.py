"""Trains a small model on isolates that are made up, writes it with a list of samples, and prints what PyTorch says of these."""

import json
import random
import sys
from pathlib import Path

import torch
from biomarker_train import export, training
from biomarker_train.encoding import Encoder
from biomarker_train.recipe import Recipe
from biomarker_train.tables import Isolate

RECIPE = """
name = "toy"
version = "1"
description = "made up"
data = "made up"
licence = "none"
least = 2
[codons]
G = 40
[network]
width = 4
[training]
members = 2
epochs = 3
draws = 1
[[table]]
path = "table.tsv"
gene = "G"
identifier = "id"
group = "patient"
mutations = "list"
tasks = ["a", "b"]
label = "{task}_label"
measure = "{task}"
[[rules]]
path = "rules.csv"
gene = "G"
"""
RULES = "Rule,a,b\nC3D,60,0\nC5E,15,10\nC5F,30,-10\nC3D + C9GH,10,5\nC3D + C5EF + C9G,20,-15\n"
COMMON = ((3, "D"), (5, "E"), (5, "F"), (9, "G"), (9, "H"), (11, "K"))


def changes(draw):
    return sorted({c for c in COMMON if draw.random() < 0.4} | {(draw.randint(12, 39), "K")})


folder = Path(sys.argv[1])
draw = random.Random(46)
lines = ["id\tpatient\ta\ta_label\tb\tb_label\tlist"]
for i in range(200):
    some = changes(draw)
    measures = [10 ** (sum(c in some for c in of) + draw.gauss(0, 0.2)) for of in (COMMON[:2], COMMON[3:])]
    cells = [cell for m in measures for cell in (f"{m:.2f}", "Resistant" if m > 3 else "Susceptible")]
    lines.append("\t".join([str(i), f"p{i}", *cells, ", ".join(f"C{codon}{residue}" for codon, residue in some)]))
(folder / "table.tsv").write_text("\n".join(lines) + "\n")
(folder / "rules.csv").write_text(RULES)
(folder / "recipe.toml").write_text(RECIPE)
torch.set_num_threads(1)
recipe = Recipe.load(folder / "recipe.toml")
table = recipe.table(folder)
features = recipe.features(table, recipe.terms(folder)[0])
model = training.train(features, table.isolates, recipe.shape, recipe.settings)
encoder = Encoder(features)
inputs = encoder.inputs(*encoder.present(table.isolates))
export.write(recipe, table, features, model, folder / "model", inputs)

samples, covered = [], []
for i in range(60):
    samples.append(Isolate(f"s{i}", "", {"G": frozenset(changes(draw))}))
    start = draw.randint(1, 12)
    covered.append((start, draw.randint(start, 40)) if i % 3 else (1, 40))
listed = []
for sample, (first, last) in zip(samples, covered, strict=True):
    words = " ".join(f"G:C{codon}{residue}" for codon, residue in sorted(sample.genes["G"]))
    listed.append(f"{sample.identifier}\t{words}\tG:{first}-{last}")
(folder / "list.tsv").write_text("\n".join(listed) + "\n")
present, known = encoder.present(samples)
for i, (first, last) in enumerate(covered):
    for number, (_, codon) in enumerate(encoder.codons):
        known[i, number] = float(first <= codon <= last)
said = model.probability(encoder.inputs(present, known))
print(
    json.dumps(
        {s.identifier: dict(zip(features.tasks, map(float, row), strict=True)) for s, row in zip(samples, said, strict=True)}
    )
)
