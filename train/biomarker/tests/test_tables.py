import pytest

from biomarker_train import rules, tables
from biomarker_train.tables import Isolate


def isolate(name, patient, changes, **labels):
    return Isolate(name, patient, {"G": frozenset(changes)}, labels)


def test_groups_follow_patients_and_genotypes():
    list_ = [
        isolate("1", "p", {(1, "A")}),
        isolate("2", "q", {(2, "A")}),
        isolate("3", "q", {(1, "A")}),  # joins the first by genotype, the second by patient
        isolate("4", "r", {(3, "A")}),
    ]
    of = tables.groups(list_)
    assert of[0] == of[1] == of[2] != of[3]


def test_folds_keep_groups_whole(folder, recipe):
    table = recipe.table(folder)
    of = tables.groups(table.isolates)
    for seed in range(3):
        fold = tables.folds(table.isolates, 4, seed)
        assert set(fold) == {0, 1, 2, 3}
        assert len({(g, f) for g, f in zip(of, fold, strict=True)}) == len(set(of))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("C3D", "C3", "table.tsv:"),
        ("Resistant", "Perhaps", "want Resistant, Susceptible or NA"),
        ("a_label", "other", "no column 'a_label'"),
        ("30", "-1", "want a number that is not negative"),
    ],
)
def test_faults_name_their_place(folder, recipe, old, new, fault):
    path = folder / "table.tsv"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError, match=fault):
        recipe.table(folder)


def test_the_frequent_first_letter_counts(folder, recipe):
    path = folder / "table.tsv"
    text = path.read_text()
    path.write_text(text.replace("C3D", "D3C", 1))  # says that the numbering has D, and the isolate C
    table = recipe.table(folder)
    assert table.wild["G", 3] == "C"
    assert all(change != (3, "C") for i in table.isolates for change in i.genes["G"])


def test_rules(folder):
    terms, left_out = rules.read(folder / "rules.csv", "G", {"a": "a", "b": "b"})
    assert left_out == ["C7ins"]
    assert {t.text() for t in terms} == {"G:3D", "G:5E", "G:5F", "G:3D+G:9GH"}
    present = {("G", 3, "D"), ("G", 5, "E"), ("G", 5, "F"), ("G", 9, "H")}
    assert rules.score(terms, "a", present) == 60 + 30 + 10  # of codon 5 the larger
    assert rules.score(terms, "b", {("G", 5, "F")}) == -10
