"""Writes the references of the table of real events: reference.fa and genes.gff3, see README.md.

python3 make.py NC_000962.3.gbk.gz HXB2.gbff
"""

import gzip
import random
import sys
from pathlib import Path

FLANK = 1500


def sequence(path):
    """Returns the sequence of a GenBank record."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as lines:
        text = lines.read().split("\nORIGIN", 1)[1].split("//", 1)[0]
    return "".join(c for c in text if c.isalpha()).upper()


def complement(seq):
    return seq[::-1].translate(str.maketrans("ACGT", "TGCA"))


def codons(rng, number, table):
    """Draws codons of a table."""
    return "".join(rng.choice(table) for _ in range(number))


def noise(rng, length, gc):
    """Draws a sequence."""
    return "".join(rng.choices("ACGT", [1 - gc, gc, gc, 1 - gc], k=length))


def main(h37rv, hxb2):
    rng = random.Random(40)
    tb, hiv = sequence(h37rv), sequence(hxb2)
    contigs, rows = [], ["##gff-version 3"]

    def gene(contig, symbol, strand, cds, source):
        """Adds a gene with its coding sequence, 1-based intervals in the order of the contig."""
        start, end = cds[0][0], cds[-1][1]
        rows.append(f"{contig}\t{source}\tgene\t{start}\t{end}\t.\t{strand}\t.\tID=gene:{symbol};Name={symbol};biotype=protein_coding")
        rows.append(f"{contig}\t{source}\tmRNA\t{start}\t{end}\t.\t{strand}\t.\tID=transcript:{symbol}.t;Parent=gene:{symbol};biotype=protein_coding")
        for a, b in cds:
            rows.append(f"{contig}\t{source}\texon\t{a}\t{b}\t.\t{strand}\t.\tParent=transcript:{symbol}.t")
        done = 0
        for a, b in cds if strand == "+" else cds[::-1]:
            rows.append(f"{contig}\t{source}\tCDS\t{a}\t{b}\t.\t{strand}\t{-done % 3}\tID=CDS:{symbol};Parent=transcript:{symbol}.t")
            done += b - a + 1
        assert done % 3 == 0, symbol

    for name, start, end, strand in (("rpoB", 759807, 763325, "+"), ("katG", 2153889, 2156111, "-")):
        piece = tb[start - 1 - FLANK : end + FLANK]
        own = tb[start - 1 : end] if strand == "+" else complement(tb[start - 1 : end])
        assert own[:3] in ("ATG", "GTG", "TTG") and own[-3:] in ("TAA", "TAG", "TGA"), name
        contigs.append((f"H37Rv_{name}", piece))
        gene(f"H37Rv_{name}", name, strand, [(FLANK + 1, FLANK + end - start + 1)], "NC_000962.3")

    # The protease has 99 codons from 1799 on, HXB2's 2253, and the reverse transcriptase 560 behind them.
    contigs.append(("HXB2_pol", hiv[1799 - 1 - FLANK : 1799 - 1 + 297 + 1680 + FLANK]))
    gene("HXB2_pol", "PR", "+", [(FLANK + 1, FLANK + 297)], "NC_001802.1")
    gene("HXB2_pol", "RT", "+", [(FLANK + 298, FLANK + 297 + 1680)], "NC_001802.1")

    # EGFR: exon 19 of NM_005228 is c.2185 to c.2283, codons 729 to 761. What is before and behind is made up.
    exon19 = "GGACTCTGGATCCCAGAAGGTGAGAAAGTTAAAATTCCCGTCGCTATCAAGGAATTAAGAGAAGCAACATCTCCGAAAGCCAACAAGGAAATCCTCGAT"
    assert len(exon19) == 2283 - 2185 + 1
    usual = "GCC GAG CTG AAG GGC TCC ACC GTG CAG ATC CCC TAC AAC GAC TTC CGG CAC ATG TGC TGG".split()
    before = "ATG" + codons(rng, 727, usual)
    after = codons(rng, 300, usual) + "TGA"
    intron18 = "GT" + noise(rng, 596, 0.45) + "AG"
    intron19 = "GTGAGTTTCTGCTTTGCTGTG" + noise(rng, 577, 0.45) + "AG"
    left, right = noise(rng, 300, 0.45), noise(rng, 300, 0.45)
    at = len(left)
    first = (at + 1, at + len(before))
    nineteen = (first[1] + len(intron18) + 1, first[1] + len(intron18) + len(exon19))
    last = (nineteen[1] + len(intron19) + 1, nineteen[1] + len(intron19) + len(after))
    contigs.append(("EGFR_exon19", left + before + intron18 + exon19 + intron19 + after + right))
    gene("EGFR_exon19", "EGFR", "+", [first, nineteen, last], "made_up")

    # Pfcrt: codons 59 to 120 of PF3D7_0709000 are real, CVMNK are 72 to 76. What is before and behind is made up.
    real = (
        "ATATTTATTTATATTTTAAGTATTATTTATTTAAGTGTATGTGTAATGAATAAAATTTTTGCTAAAAGAACTTTAAACAAAATTGGTAACTATAGTTTTGTAACATCCGAAACTCACAAC"
        "TTTATTTGTATGATTATGTTCTTTATTGTTTATTCCTTATTTGGAAATAAAAAGGGAAATTCAAAA"
    )
    plasmodium = "AAA AAT GAT GAA ATT TTA TTT TAT ATA AGT TCA GTA GCA ACA CAA GGA CCA CAT AGA TGT".split()
    head = "ATG" + codons(rng, 57, plasmodium)
    tail = codons(rng, 424 - 58 - len(real) // 3, plasmodium) + "TAA"
    left, right = noise(rng, 1500, 0.2), noise(rng, 1500, 0.2)
    contigs.append(("Pfcrt_exon2", left + head + real + tail + right))
    gene("Pfcrt_exon2", "Pfcrt", "+", [(len(left) + 1, len(left) + len(head + real + tail))], "made_up")

    folder = Path(__file__).parent
    with (folder / "reference.fa").open("w") as out:
        for name, seq in contigs:
            out.write(f">{name}\n" + "".join(seq[i : i + 100] + "\n" for i in range(0, len(seq), 100)))
    (folder / "genes.gff3").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
