import numpy as np
import pytest

from variant_train.planting import Change, spelled
from variant_train.reads import Aligner, Errors, Read, errors_of, read_fastq, reverse_complement, thinned, write_sam, written

GENOME = "".join(np.random.default_rng(4).choice(list("ACGT"), 6_000))
NONE = Errors(0, 0, 0)


def noisy(sequence: str, rng: np.random.Generator) -> str:
    out = []
    for base in sequence:
        kind = rng.random()
        if kind < 0.03:
            continue
        out.append("ACGT"[int(rng.integers(4))] if kind < 0.06 else base)
        if kind > 0.98:
            out.append("ACGT"[int(rng.integers(4))])
    return "".join(out)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_changed_read_spells_its_haplotype(reverse):
    changes = [
        Change(1000, GENOME[1000], GENOME[1000], ("ACGT".replace(GENOME[1000], "")[0],)),
        Change(2000, "", "", ("ACGTACG",)),
        Change(3000, GENOME[3000:3005], GENOME[3000:3005], ("",)),
        Change(50, GENOME[50:52], GENOME[50:52], ("",)),  # before the read
    ]
    piece = GENOME[500:5000]
    read = Read("r", reverse_complement(piece) if reverse else piece, "5" * len(piece))
    placed = Aligner(GENOME, "map-ont").place(read)
    assert placed.reverse == reverse and placed.start == 500 and placed.end == 5000
    changed = written(placed, changes, 0, NONE, np.random.default_rng(0))
    assert len(changed.sequence) == len(changed.qualities)
    wanted = spelled(GENOME, changes[:3], 0)[500:5002]
    assert (reverse_complement(changed.sequence) if reverse else changed.sequence) == wanted


def test_errors_of_a_read_stay():
    rng = np.random.default_rng(1)
    change = Change(2500, GENOME[2500:2504], GENOME[2500:2504], ("",))
    piece = noisy(GENOME[1000:4000], rng)
    placed = Aligner(GENOME, "map-ont").place(Read("r", piece, "5" * len(piece)))
    changed = written(placed, [change], 0, NONE, rng)
    cut = placed.query(2500)[0]
    assert changed.sequence[:cut] == piece[:cut]
    assert changed.sequence.endswith(piece[placed.query(2504)[0] :])
    assert 0 <= len(piece) - len(changed.sequence) <= 6


def test_a_wrong_base_is_not_overwritten():
    wrong = "ACGT".replace(GENOME[1500], "")
    piece = GENOME[1000:1500] + wrong[0] + GENOME[1501:2000]
    placed = Aligner(GENOME, "map-ont").place(Read("r", piece, ""))
    assert (
        written(placed, [Change(1500, GENOME[1500], GENOME[1500], (wrong[1],))], 0, NONE, np.random.default_rng(0)).sequence
        == piece
    )


def test_errors_are_measured():
    rng = np.random.default_rng(2)
    aligner = Aligner(GENOME, "map-ont")
    placed = [aligner.place(Read(str(i), noisy(GENOME[i * 100 : i * 100 + 3000], rng), "")) for i in range(20)]
    errors = errors_of(placed, GENOME)
    assert errors.substitution == pytest.approx(0.0225, abs=0.01)
    assert errors.deletion == pytest.approx(0.03, abs=0.01)
    assert errors.insertion == pytest.approx(0.02, abs=0.01)


def test_sam_is_what_minimap2_found(tmp_path):
    piece = "TTTTTTTTTTGGGGGGGGGG" + GENOME[700:1900]
    read = Read("r", reverse_complement(piece), "".join(chr(33 + i % 40) for i in range(len(piece))))
    placed = Aligner(GENOME, "map-ont").place(read)
    write_sam([placed], "g", len(GENOME), "s", tmp_path / "r.sam")
    *head, line = (tmp_path / "r.sam").read_text().splitlines()
    assert any("SO:coordinate" in h for h in head)
    name, flag, contig, position, _, cigar, _, _, _, sequence, qualities = line.split("\t")
    assert (name, flag, contig, int(position) - 1) == ("r", "16", "g", placed.start)
    assert sequence == piece and qualities == read.qualities[::-1]
    assert cigar.startswith(f"{placed.clip}S") and placed.start - placed.clip == 680


def test_reads_are_thinned_to_a_depth():
    aligner = Aligner(GENOME, "map-ont")
    placed = [aligner.place(Read(str(i), GENOME[i % 5 * 1000 : i % 5 * 1000 + 1000], "")) for i in range(500)]
    kept = list(thinned(placed, 5000, 20, np.random.default_rng(0)))
    assert sum(p.end - p.start for p in kept) / 5000 == pytest.approx(20, rel=0.25)


def test_a_broken_fastq_is_named(tmp_path):
    (tmp_path / "x.fastq").write_text("@a\nACGT\n+\nII\n")
    with pytest.raises(ValueError, match="x.fastq.*read a"):
        read_fastq(tmp_path / "x.fastq")
