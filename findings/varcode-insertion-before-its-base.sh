#!/usr/bin/env bash
# One would guess: varcode takes REF and ALT for what they say, so an insertion before a base and one behind it are two variants,
# with two proteins, as bcftools norm takes them for two.
# What happens: it takes away what REF and ALT have in common at the beginning, then at the end. If nothing is left of REF and all
# was at the end (C to GC), the inserted bases stand at the position of REF's first base, and that means behind it: the variant
# equals C to CG. load_vcf gives one of the two and forgets the other, and its protein is the other's. At the first base of a
# contig VCF wants this form (VCF 4.3, section 1.6.1, of REF: there the base after the event); elsewhere records with a
# substitution and an insertion at one place have it (REF A, ALT G,GA), as callers of haplotypes write them. varcode 10.21.1,
# pyensembl 2.32.3, pysam 0.24.1 (bcftools 1.24).
# Who is hurt: who predicts peptides of tumours or effects on genomes of viruses and plasmids: variants are missing, and an
# insertion behind another base may make another amino acid or no stop, without a warning.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check varcode==10.21.1 pyensembl==2.32.3 pysam==0.24.1
cat >try.py <<'PYTHON'
import itertools
import logging
import os

logging.disable(logging.CRITICAL)
os.environ["PYENSEMBL_CACHE_DIR"] = os.path.abspath("cache")
import pysam
import pysam.bcftools
from pyensembl import Genome
from varcode import load_vcf

codons = dict(zip(map("".join, itertools.product("TCAG", repeat=3)), "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"))
# A contig that is one transcript: 20 bases, a reading frame, 40 bases.
frame = "ATGGCTCATGCAAGCCTGGATTGTTACAAACGTGGTTCTGAAACCTGGTAA"
contig = "CATTCAGCAGTCCAATCAGA" + frame + "TCTAGGACTTAAGCATCTAACTTGACGAATTACAGTCAGC"


def protein(sequence):
    amino_acids = (codons[sequence[i : i + 3]] for i in range(sequence.index("ATGGC"), len(sequence) - 2, 3))
    return "".join(itertools.takewhile(lambda a: a != "*", amino_acids))


attributes = 'gene_id "G"; gene_name "G"; gene_biotype "protein_coding"; transcript_id "T"; transcript_name "T"; transcript_biotype "protein_coding";'
stop = 20 + len(frame)
with open("genes.gtf", "w") as f:
    f.write(f'1\tmade\tgene\t1\t{len(contig)}\t.\t+\t.\tgene_id "G"; gene_name "G"; gene_biotype "protein_coding";\n')
    for kind, first, last, more in (
        ("transcript", 1, len(contig), ""),
        ("exon", 1, len(contig), ' exon_number "1"; exon_id "E";'),
        ("CDS", 21, stop - 3, ' exon_number "1"; protein_id "P";'),
        ("start_codon", 21, 23, ""),
        ("stop_codon", stop - 2, stop, ""),
    ):
        f.write(f"1\tmade\t{kind}\t{first}\t{last}\t.\t+\t{0 if 'c' in kind[1:] or kind == 'CDS' else '.'}\t{attributes}{more}\n")
for path, name, sequence in (("contig.fa", "1", contig), ("transcripts.fa", "T", contig), ("proteins.fa", "P", protein(contig))):
    with open(path, "w") as f:
        f.write(f">{name}\n{sequence}\n")
pysam.faidx("contig.fa")
genome = Genome(
    reference_name="made",
    annotation_name="made",
    gtf_path_or_url="genes.gtf",
    transcript_fasta_paths_or_urls="transcripts.fa",
    protein_fasta_paths_or_urls="proteins.fa",
)
genome.index()

for title, records in (
    ("first base of the contig", [(1, "C", "CG"), (1, "C", "GC")]),
    ("behind and before a base", [(28, "A", "AGAA,GAAA")]),
    ("with a substitution", [(28, "A", "G,TGGA")]),
    ("a stop", [(27, "C", "G,TAGC")]),
):
    with open("sites.vcf", "w") as f:
        f.write(f"##fileformat=VCFv4.3\n##contig=<ID=1,length={len(contig)}>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n")
        f.writelines(f"1\t{at}\t.\t{ref}\t{alt}\t50\tPASS\t.\n" for at, ref, alt in records)
    by_hand = set()
    for at, ref, alts in records:
        assert contig[at - 1 : at - 1 + len(ref)] == ref
        by_hand.update(contig[: at - 1] + alt + contig[at - 1 + len(ref) :] for alt in alts.split(","))
    told = pysam.bcftools.norm("-m", "-any", "-f", "contig.fa", "sites.vcf").splitlines()
    norm = " ".join(":".join(line.split("\t")[i] for i in (1, 3, 4)) for line in told if line[0] != "#")
    loaded = load_vcf("sites.vcf", genome=genome)
    print(f"{title}: {'; '.join(f'{at} {ref} {alt}' for at, ref, alt in records)}; bcftools norm {norm}")
    print(f"  {len(by_hand)} sequences by hand, proteins {' '.join(sorted(map(protein, by_hand)))}")
    proteins = (v.effects().top_priority_effect() for v in loaded)
    print(f"  {len(loaded)} variants of varcode, proteins {' '.join(sorted(getattr(e, 'mutant_protein_sequence', None) or type(e).__name__ for e in proteins))}")
PYTHON
echo "varcode $(venv/bin/python -c 'from importlib.metadata import version; print(version("varcode"))')"
venv/bin/python -W ignore try.py 2>errors | tee seen
cat >expected <<'EXPECTED'
first base of the contig: 1 C CG; 1 C GC; bcftools norm 1:C:CG 1:C:GC
  2 sequences by hand, proteins MAHASLDCYKRGSETW MAHASLDCYKRGSETW
  1 variants of varcode, proteins FivePrimeUTR
behind and before a base: 28 A AGAA,GAAA; bcftools norm 27:C:CAGA 27:C:CGAA
  2 sequences by hand, proteins MAQNASLDCYKRGSETW MARNASLDCYKRGSETW
  1 variants of varcode, proteins MAQNASLDCYKRGSETW
with a substitution: 28 A G,TGGA; bcftools norm 27:C:CTGG 28:A:G
  2 sequences by hand, proteins MALDASLDCYKRGSETW MARASLDCYKRGSETW
  2 variants of varcode, proteins MAHGASLDCYKRGSETW MARASLDCYKRGSETW
a stop: 27 C G,TAGC; bcftools norm 26:T:TTAG 27:C:G
  2 sequences by hand, proteins MA MADASLDCYKRGSETW
  2 variants of varcode, proteins MADASLDCYKRGSETW MALDASLDCYKRGSETW
EXPECTED
if ! diff expected seen; then
	echo "varcode behaves otherwise by now" >&2
	exit 1
fi
