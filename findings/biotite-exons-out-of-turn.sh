#!/usr/bin/env bash
# One would guess: set_annotation of biotite.sequence.io.genbank writes the locations of a coding sequence as get_annotation has read
# them, exon after exon: in a GenBank file join(...) means that the pieces are put together in the order in which they are listed.
# What happens: a Feature keeps its locations in a set, and they are joined in the set's order, which follows the hash of a string,
# so each process writes another file. What Biopython splices from it is exons out of turn: of 300 genes of two exons half are
# right, of 300 genes of five exons 1 to 6. With complement() as well; one exon is right. No warning, and a test by biotite sees
# nothing: what it reads back is equal, and it sorts the pieces before it splices. That in turn puts the end of a gene over the
# origin of a circle before its start, in files of others too. biotite 2.0.0; the files' other reader is Biopython 1.88.
# Who is hurt: who adds, renames or drops features with biotite and hands the file on, to annotate variants, to design or to submit:
# positions and lengths are right, the proteins aren't; and who takes genes from plasmids, phages or organelles with biotite.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 12))' && command -v pyenv >/dev/null; then
	PYENV_VERSION=$(pyenv versions --bare | sort -V | tail -n 1)
	export PYENV_VERSION
fi
python3 -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { echo "biotite 2.0.0 wants Python 3.12 or a newer one as python3" >&2; exit 2; }
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check biotite==2.0.0 biopython==1.88
cat >make.py <<'PYTHON'
"""Writes made.gb, a record that Biopython writes, with a checksum of each gene's spliced sequence by hand as a note."""
import random
import zlib

from Bio.Seq import Seq
from Bio.SeqFeature import CompoundLocation, SeqFeature, SimpleLocation
from Bio.SeqIO import write
from Bio.SeqRecord import SeqRecord

chance = random.Random(1)
length = 600000
genome = Seq("".join(chance.choice("ACGT") for _ in range(length)))
record = SeqRecord(genome, "made", "made", "made", annotations={"molecule_type": "DNA", "topology": "circular"})


def gene(kind, pieces, strand):
    """Pieces are half open and in the order in which they are translated."""
    parts = [SimpleLocation(a, b, strand) for a, b in pieces]
    spliced = Seq("")
    for a, b in pieces:
        spliced += genome[a:b] if strand > 0 else genome[a:b].reverse_complement()
    location = parts[0] if len(parts) == 1 else CompoundLocation(parts)
    record.features.append(SeqFeature(location, "CDS", qualifiers={"gene": f"{kind}, {'+' if strand > 0 else '-'}", "note": f"{zlib.crc32(bytes(spliced)):08x}"}))


at = 1000
for exons in (1, 2, 3, 5):
    for strand in (1, -1):
        for _ in range(150):
            pieces = []
            for _ in range(exons):
                at += chance.randint(20, 90)
                pieces.append((at, at + 3 * chance.randint(15, 40)))
                at = pieces[-1][1]
            gene(f"{exons} exon{'s' if exons > 1 else ''}", pieces[::strand], strand)
for strand in (1, -1):
    gene("over the origin", [(length - 300, length), (0, 150)][::strand], strand)
write(record, "made.gb", "genbank")
PYTHON
cat >rewrite.py <<'PYTHON'
"""Reads made.gb and writes its features to copy.gb by biotite; says whether biotite finds the copy equal."""
import sys

from biotite.sequence.io import genbank

file = genbank.GenBankFile.read("made.gb")
annotation = genbank.get_annotation(file)
genbank.set_annotation(file, annotation)
file.write(sys.argv[1])
again = genbank.get_annotation(genbank.GenBankFile.read(sys.argv[1]))
assert again == annotation, "biotite finds another annotation in what it wrote"
PYTHON
cat >see.py <<'PYTHON'
"""Counts the genes that Biopython splices from a file, or that biotite gives by feature, as by hand."""
import collections
import sys
import zlib

from Bio.SeqIO import read
from biotite.sequence.io import genbank


def counted(title, genes):
    right, all_ = collections.Counter(), collections.Counter()
    for kind, note, spliced in genes:
        all_[kind] += 1
        right[kind] += f"{zlib.crc32(spliced.encode()):08x}" == note
    print(f"{title}: " + "; ".join(f"{kind} {right[kind]} of {all_[kind]}" for kind in all_))


def by_biopython(path):
    record = read(path, "genbank")
    genes = [f for f in record.features if f.type == "CDS"]
    lengths = sorted((f.qualifiers["note"][0], len(f)) for f in genes)
    return lengths, [(f.qualifiers["gene"][0], f.qualifiers["note"][0], str(f.extract(record.seq))) for f in genes]


lengths, genes = by_biopython("made.gb")
counted("as made, by Biopython", genes)
file = genbank.GenBankFile.read("made.gb")
whole = genbank.get_annotated_sequence(file)
features = sorted(f for f in whole.annotation if f.key == "CDS")
order = list(dict.fromkeys(g[0] for g in genes))
features.sort(key=lambda f: order.index(f.qual["gene"]))
counted("as made, by biotite", [(f.qual["gene"], f.qual["note"], str(whole[f])) for f in features])
files = set()
for path in sys.argv[1:]:
    files.add(open(path).read())
    copied, genes = by_biopython(path)
    assert copied == lengths, "a gene has another length"
    genes.sort(key=lambda g: order.index(g[0]))
    counted(f"{path}, by Biopython", genes)
print(f"{len(sys.argv) - 1} copies of one file are {len(files)} different files, all equal to biotite")
PYTHON
venv/bin/python -c 'from importlib.metadata import version; print("biotite", version("biotite"), "Biopython", version("biopython"))'
venv/bin/python make.py
# Python takes another seed for the hash of strings in each process; these are four of them.
for seed in 1 2 3 4; do
	PYTHONHASHSEED=$seed venv/bin/python rewrite.py "copy$seed.gb" 2>&1
done
venv/bin/python see.py copy1.gb copy2.gb copy3.gb copy4.gb | tee seen
cat >expected <<'EXPECTED'
as made, by Biopython: 1 exon, + 150 of 150; 1 exon, - 150 of 150; 2 exons, + 150 of 150; 2 exons, - 150 of 150; 3 exons, + 150 of 150; 3 exons, - 150 of 150; 5 exons, + 150 of 150; 5 exons, - 150 of 150; over the origin, + 1 of 1; over the origin, - 1 of 1
as made, by biotite: 1 exon, + 150 of 150; 1 exon, - 150 of 150; 2 exons, + 150 of 150; 2 exons, - 150 of 150; 3 exons, + 150 of 150; 3 exons, - 150 of 150; 5 exons, + 150 of 150; 5 exons, - 150 of 150; over the origin, + 0 of 1; over the origin, - 0 of 1
copy1.gb, by Biopython: 1 exon, + 150 of 150; 1 exon, - 150 of 150; 2 exons, + 82 of 150; 2 exons, - 74 of 150; 3 exons, + 28 of 150; 3 exons, - 23 of 150; 5 exons, + 2 of 150; 5 exons, - 0 of 150; over the origin, + 0 of 1; over the origin, - 0 of 1
copy2.gb, by Biopython: 1 exon, + 150 of 150; 1 exon, - 150 of 150; 2 exons, + 65 of 150; 2 exons, - 69 of 150; 3 exons, + 32 of 150; 3 exons, - 24 of 150; 5 exons, + 1 of 150; 5 exons, - 0 of 150; over the origin, + 1 of 1; over the origin, - 1 of 1
copy3.gb, by Biopython: 1 exon, + 150 of 150; 1 exon, - 150 of 150; 2 exons, + 84 of 150; 2 exons, - 73 of 150; 3 exons, + 24 of 150; 3 exons, - 24 of 150; 5 exons, + 6 of 150; 5 exons, - 0 of 150; over the origin, + 0 of 1; over the origin, - 0 of 1
copy4.gb, by Biopython: 1 exon, + 150 of 150; 1 exon, - 150 of 150; 2 exons, + 78 of 150; 2 exons, - 75 of 150; 3 exons, + 27 of 150; 3 exons, - 28 of 150; 5 exons, + 1 of 150; 5 exons, - 1 of 150; over the origin, + 1 of 1; over the origin, - 1 of 1
4 copies of one file are 4 different files, all equal to biotite
EXPECTED
if ! diff expected seen; then
	echo "biotite behaves otherwise by now" >&2
	exit 1
fi
