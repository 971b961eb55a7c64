#!/usr/bin/env python3
"""Makes the genomes, gene models and golden proteins that models_test.go compares with.

The proteins are Biopython's translations of coding sequences that gffutils reads: two programs that share no code with
Porestream. Needs: pip install biopython==1.88 gffutils==0.14
Usage: make.py LAMBDA DATA: the folder testdata/lambda of this repository, and the one with ecoli-r9 and sarscov2-r9.

sarscov2: NC_045512.2 with genes in NCBI's style (RefSeq, public domain).
ecoli: two excerpts of NC_000913.3 (RefSeq, public domain): fdnG with its selenocysteine, prfB with its slip.
human: made up here, in the style of Ensembl: both strands, split codons, incomplete ends, and a mitochondrion.
"""
import gzip
import hashlib
import pathlib
import random
import sys

import gffutils
from Bio import SeqIO
from Bio.Data import CodonTable
from Bio.Seq import Seq

HERE = pathlib.Path(__file__).parent


def opened(path):
    return gzip.open(path, "rt") if str(path).endswith(".gz") else open(path)


def write(name, text):
    with open(HERE / name, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
        z.write(text.encode())


def fasta(records):
    return "".join(f">{n}\n" + "\n".join(s[i:i + 80] for i in range(0, len(s), 80)) + "\n" for n, s in records)


def excerpt(fa, gff, cuts):
    """Genome and genes of some stretches, each a contig of its own."""
    seq = str(next(SeqIO.parse(opened(fa), "fasta")).seq)
    records, rows = [], ["##gff-version 3"]
    for name, start, end in cuts:
        records.append((name, seq[start:end]))
        for line in opened(gff):
            f = line.rstrip("\n").split("\t")
            if len(f) != 9 or f[2] not in ("gene", "CDS") or int(f[3]) <= start or int(f[4]) > end:
                continue
            f[0], f[3], f[4] = name, str(int(f[3]) - start), str(int(f[4]) - start)
            kept = []
            for a in f[8].split(";"):
                key, _, value = a.partition("=")
                if key == "transl_except":
                    for number in set("".join(c if c.isdigit() else " " for c in value.replace("%2C", " ")).split()):
                        value = value.replace(number, str(int(number) - start))
                if key in ("ID", "Parent", "gene", "gene_biotype", "protein_id", "transl_table", "transl_except", "exception", "pseudo"):
                    kept.append(f"{key}={value}")
            f[8] = ";".join(kept)
            rows.append("\t".join(f))
    return fasta(records), "\n".join(rows) + "\n"


def human(rng):
    """Genes in the style of Ensembl whose coding sequences are translated back from random proteins."""
    records, rows = [], ["##gff-version 3"]
    for contig, table, count in (("1", 1, 40), ("X", 1, 20), ("MT", 2, 13)):
        back = {}
        for codon, aa in CodonTable.unambiguous_dna_by_id[table].forward_table.items():
            back.setdefault(aa, []).append(codon)
        stops = CodonTable.unambiguous_dna_by_id[table].stop_codons
        seq = []
        at = 0

        def add(s):
            nonlocal at
            seq.append(s)
            at += len(s)
            return at

        for n in range(count):
            add("".join(rng.choices("ACGT", k=rng.randint(30, 120))))
            name = f"{contig}{n:03d}"
            first = "ATG" if table == 1 else rng.choice(["ATG", "ATA", "ATT"])
            cds = first + "".join(rng.choice(back[rng.choice(sorted(back))]) for _ in range(rng.randint(20, 150))) + rng.choice(stops)
            phase, tag = 0, ["basic"]
            if table == 1 and n % 10 == 3:  # the first bases are missing
                phase = rng.choice([1, 2])
                cds, tag = cds[3 - phase:], ["cds_start_NF", "mRNA_start_NF"]
            elif table == 1 and n % 10 == 7:  # the last ones
                cds, tag = cds[:-rng.randint(3, 5)], ["cds_end_NF"]
            elif table == 2 and n % 4 == 1:  # the stop codon is completed when the transcript gets its tail
                cds, tag = cds[:-3] + rng.choice(["T", "TA"]), []
            utr5 = "" if table == 2 or phase else "".join(rng.choices("ACGT", k=rng.randint(1, 60)))
            utr3 = "" if table == 2 or "cds_end_NF" in tag else "".join(rng.choices("ACGT", k=rng.randint(1, 60)))
            mrna = utr5 + cds + utr3
            cuts = sorted(rng.sample(range(1, len(mrna)), 0 if table == 2 else rng.randint(0, 6)))
            exons = [(a, b) for a, b in zip([0] + cuts, cuts + [len(mrna)])]  # in the transcript
            strand = "+" if (n % 2 == 0) != (table == 2 and n == 4) else "-"
            placed = []
            for i, (a, b) in enumerate(exons if strand == "+" else exons[::-1]):
                if i:
                    add("".join(rng.choices("ACGT", k=rng.randint(20, 90))))
                piece = mrna[a:b] if strand == "+" else str(Seq(mrna[a:b]).reverse_complement())
                start = at
                placed.append((start, add(piece), a, b))
            start, end = placed[0][0] + 1, placed[-1][1]
            rows.append(f"{contig}\tensembl\tgene\t{start}\t{end}\t.\t{strand}\t.\tID=gene:ENSG{name};Name=GENE{name};biotype=protein_coding;gene_id=ENSG{name};version=3")
            rows.append(f"{contig}\tensembl\tmRNA\t{start}\t{end}\t.\t{strand}\t.\tID=transcript:ENST{name};Parent=gene:ENSG{name};biotype=protein_coding;tag={','.join(tag)};transcript_id=ENST{name};version=2")
            lo, hi = len(utr5), len(utr5) + len(cds)
            for s, e, a, b in placed:
                rows.append(f"{contig}\tensembl\texon\t{s + 1}\t{e}\t.\t{strand}\t.\tParent=transcript:ENST{name}")
                ca, cb = max(a, lo), min(b, hi)
                if ca >= cb:
                    continue
                p = (phase - (ca - lo)) % 3
                cs, ce = (s + ca - a, s + cb - a) if strand == "+" else (s + b - cb, s + b - ca)
                rows.append(f"{contig}\tensembl\tCDS\t{cs + 1}\t{ce}\t.\t{strand}\t{p}\tID=CDS:ENSP{name};Parent=transcript:ENST{name};protein_id=ENSP{name}")
        add("".join(rng.choices("ACGT", k=50)))
        records.append((contig, "".join(seq)))
    return fasta(records), "\n".join(rows) + "\n"


def proteins(name, fa, gff, table_of):
    """A line for each coding sequence: set, protein, genetic code, SHA-1 of the coding sequence, translation."""
    genome = {r.id: r.seq for r in SeqIO.parse(fa, "fasta")}
    db = gffutils.create_db(gff, ":memory:", merge_strategy="create_unique", keep_order=True, from_string=True)
    groups = {}
    for f in db.features_of_type("CDS"):
        if f.attributes.get("pseudo") != ["true"]:
            groups.setdefault((f.seqid, f.attributes["ID"][0]), []).append(f)
    lines = []
    for (contig, ident), parts in groups.items():
        parts.sort(key=lambda f: f.start, reverse=parts[0].strand == "-")
        pieces = [genome[contig][f.start - 1:f.end] for f in parts]
        cds = Seq("".join(str(p if f.strand == "+" else p.reverse_complement()) for p, f in zip(pieces, parts)))
        attributes = parts[0].attributes
        table = int(attributes["transl_table"][0]) if "transl_table" in attributes else table_of(contig)
        phase = int(parts[0].frame) if parts[0].frame != "." else 0
        tags = next((p.attributes.get("tag", []) for p in db.parents(parts[0], featuretype="mRNA")), [])
        whole = len(cds) - (len(cds) - phase) % 3
        protein = list(str(cds[phase:whole].translate(table=table)))
        if phase:
            protein.insert(0, "X")
        elif "cds_start_NF" not in tags and str(cds[:3]) in CodonTable.unambiguous_dna_by_id[table].start_codons:
            protein[0] = "M"
        for value in attributes.get("transl_except", []):
            numbers = "".join(c if c.isdigit() else " " for c in value).split()
            if numbers:
                first = int(numbers[0]) - parts[0].start if parts[0].strand == "+" else parts[0].end - int(numbers[1])
                protein[first // 3] = "U"
        ident = attributes.get("protein_id", [ident])[0].removeprefix("CDS:")
        lines.append(f"{name}\t{ident}\t{table}\t{hashlib.sha1(str(cds).encode()).hexdigest()}\t{''.join(protein)}\n")
    return sorted(lines)


def main():
    phage, data = map(pathlib.Path, sys.argv[1:3])
    sets = {
        "lambda": (opened(phage / "reference.fa").read(), opened(phage / "genes.gff3").read()),
        "sarscov2": (opened(data / "sarscov2-r9/NC_045512.2.fa").read(), opened(data / "sarscov2-r9/genes.gff3").read()),
        "ecoli": excerpt(data / "ecoli-r9/MG1655.fa.gz", data / "ecoli-r9/genes.gff3.gz", [("fdnG", 1538000, 1556000), ("prfB", 3030000, 3042000)]),
        "human": human(random.Random(7)),
    }
    golden = []
    for name, (fa, gff) in sets.items():
        if name != "lambda":
            write(f"{name}.fa.gz", fa)
            write(f"{name}.gff3.gz", gff)
        path = HERE / "genome.tmp"
        path.write_text(fa)
        golden += proteins(name, path, gff, lambda contig: 2 if contig == "MT" else 11 if name == "lambda" else 1)
        path.unlink()
    write("proteins.tsv.gz", "".join(golden))


main()
