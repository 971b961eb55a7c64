"""Writes the genes that Pyrodigal finds as GFF3: FASTA, single or meta, genetic code. Called by eval-genes.sh."""

import sys

import pyrodigal


def sequences(path):
    name, lines = None, []
    with open(path) as fasta:
        for line in fasta:
            if line.startswith(">"):
                if name:
                    yield name, "".join(lines)
                name, lines = line[1:].split()[0], []
            else:
                lines.append(line.strip())
    if name:
        yield name, "".join(lines)


def main(path, mode, code):
    contigs = list(sequences(path))
    finder = pyrodigal.GeneFinder(meta=mode == "meta")
    if mode == "single":
        finder.train(*(s.encode() for _, s in contigs), translation_table=int(code))
    number = 0
    for name, sequence in contigs:
        for gene in finder.find_genes(sequence.encode()):
            number += 1
            strand = "+" if gene.strand > 0 else "-"
            print(name, "pyrodigal", "CDS", gene.begin, gene.end, ".", strand, "0", f"ID={number}", sep="\t")


main(*sys.argv[1:])
