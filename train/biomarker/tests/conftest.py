import random

import pytest

from biomarker_train import rules
from biomarker_train.recipe import Recipe

RECIPE = """
name = "toy"
version = "1"
description = "made up"
data = "made up"
licence = "none"
least = 2
folds = 2

[codons]
G = 40

[network]
width = 4

[training]
members = 2
epochs = 12

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

RULES = "Rule,a,b\nC3D,60,0\nC5E,15,10\nC5F,30,-10\nC3D + C9GH,10,5\nC7ins,30,0\n"


@pytest.fixture
def folder(tmp_path):
    """Isolates that are resistant to a by C3D or C5F, and to b by C9G."""
    draw = random.Random(46)
    lines = ["id\tpatient\ta\ta_label\tb\tb_label\tlist"]
    for i in range(160):
        some = {
            f"C{codon}{residue}" for codon, residue in ((3, "D"), (5, "E"), (5, "F"), (9, "G"), (11, "K")) if draw.random() < 0.3
        }
        some |= {f"C{draw.randint(12, 39)}K"}
        a, b = bool({"C3D", "C5F"} & some), "C9G" in some
        word = {True: "Resistant", False: "Susceptible"}
        lines.append(f"{i}\tp{i // 2}\t{30 if a else 0.0}\t{word[a]}\t{8 if b else 1}\t{word[b]}\t{', '.join(sorted(some))}")
    (tmp_path / "table.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "rules.csv").write_text(RULES)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path


@pytest.fixture
def recipe(folder) -> Recipe:
    return Recipe.load(folder / "recipe.toml")


@pytest.fixture
def terms(folder) -> list[rules.Term]:
    return rules.read(folder / "rules.csv", "G", {"a": "a", "b": "b"})[0]
