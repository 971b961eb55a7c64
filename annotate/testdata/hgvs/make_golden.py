#!/usr/bin/env python3
"""Makes the golden files of the HGVS tests with biocommons hgvs 1.5.7 (Apache-2.0) and mutalyzer-hgvs-parser 0.4.0 (MIT).

Usage: pip install hgvs==1.5.7 mutalyzer-hgvs-parser==0.4.0 && python3 make_golden.py

genes.fa.gz, genes.gff3.gz  a made-up genome: eight genes on both strands, with introns in the coding sequence and in
                            the untranslated regions, in NCBI's style
golden.tsv.gz               random variants of it: the description given to biocommons hgvs, its normal form along the
                            contig, along the transcript (in normal form where biocommons can: not in introns), and the
                            predicted protein
grammar.tsv                 whether mutalyzer's parser takes a description; it goes to the package of the grammar
"""
import gzip
import random

import hgvs.normalizer
import hgvs.parser
import hgvs.variantmapper
from hgvs.dataproviders.interface import Interface
from hgvs.exceptions import HGVSError

random.seed(20)
CONTIG = "NC_900001.1"
COMPLEMENT = str.maketrans("ACGT", "TGCA")
TABLE = dict(zip((a + b + c for a in "TCAG" for b in "TCAG" for c in "TCAG"),
                 "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"))


def revcomp(s):
    return s.translate(COMPLEMENT)[::-1]


def dna(n):
    out = ""
    while len(out) < n:
        if random.random() < 0.3:  # repeats, for ambiguous places
            out += "".join(random.choices("ACGT", k=random.randint(1, 3))) * random.randint(2, 5)
        else:
            out += random.choice("ACGT")
    return out[:n]


class Gene:
    """One gene in transcript direction: exon sequences, intron sequences, cds bounds in the spliced transcript."""

    def __init__(self, number, strand):
        self.tx, self.pro, self.strand = f"NM_90000{number}.2", f"NP_90000{number}.1", strand
        lengths = [random.randint(30, 60), random.randint(40, 90), random.randint(60, 120), random.randint(50, 100), random.randint(40, 80), random.randint(40, 70)]
        self.introns = [dna(random.randint(30, 61)) for _ in lengths[1:]]
        total = sum(lengths)
        start = lengths[0] + random.randint(3, 20)  # the first exon is untranslated, and so is the last
        codons = (total - lengths[-1] - random.randint(5, 20) - start) // 3
        cds = "ATG" + "".join(self.codon() for _ in range(codons - 2)) + random.choice(["TAA", "TAG", "TGA"])
        seq = dna(start) + cds
        seq += dna(total - len(seq))
        self.seq, self.start, self.end = seq, start, start + len(cds)
        self.exons, at = [], 0
        for n in lengths:
            self.exons.append((at, at + n))
            at += n

    @staticmethod
    def codon():
        while True:
            c = dna(3)
            if TABLE[c] != "*":
                return c

    def genomic(self):
        out = ""
        for i, (s, e) in enumerate(self.exons):
            out += self.seq[s:e] + (self.introns[i] if i < len(self.introns) else "")
        return out

    def place(self, offset):
        """Sets the exons' coordinates on the contig, in transcript order."""
        self.span = (offset, offset + len(self.genomic()))
        at, self.places = 0, []
        for i, (s, e) in enumerate(self.exons):
            self.places.append((at, at + e - s))
            at += e - s + (len(self.introns[i]) if i < len(self.introns) else 0)
        n = at
        if self.strand < 0:
            self.places = [(n - e, n - s) for s, e in self.places]
        self.places = [(offset + s, offset + e) for s, e in self.places]


def build():
    genes, contig = [], dna(80)
    for i in range(8):
        g = Gene(i + 1, 1 if i % 2 == 0 else -1)
        g.place(len(contig))
        contig += (g.genomic() if g.strand > 0 else revcomp(g.genomic())) + dna(60)
        genes.append(g)
    return genes, contig


GENES, SEQ = build()


class Provider(Interface):
    """What biocommons hgvs asks of its database."""

    required_version = "1.1"
    url = "local"

    def data_version(self): return "1"
    def schema_version(self): return "1.1"
    def get_acs_for_protein_seq(self, seq): return []
    def get_gene_info(self, gene): return None
    def get_similar_transcripts(self, tx): return []
    def get_tx_for_gene(self, gene): return []
    def get_tx_for_region(self, *a): return []
    def get_assembly_map(self, name): return {CONTIG: "1"}

    def gene(self, tx): return next(g for g in GENES if g.tx == tx)

    def get_pro_ac_for_tx_ac(self, tx): return self.gene(tx).pro

    def get_seq(self, ac, start=None, end=None):
        if ac == CONTIG:
            s = SEQ
        elif ac.startswith("NP_"):
            g = next(g for g in GENES if g.pro == ac)
            s = "".join(TABLE[g.seq[i:i + 3]] for i in range(g.start, g.end - 3, 3))
        else:
            s = self.gene(ac).seq
        return s[start:end]

    def get_tx_exons(self, tx, alt, method):
        g = self.gene(tx)
        return [dict(tx_ac=tx, alt_ac=alt, alt_strand=g.strand, alt_aln_method=method, ord=i, tx_start_i=s, tx_end_i=e,
                     alt_start_i=a, alt_end_i=b, cigar=f"{e - s}=", hgnc="X")
                for i, ((s, e), (a, b)) in sorted(enumerate(zip(g.exons, g.places)), key=lambda x: x[1][1])]

    def get_tx_info(self, tx, alt, method):
        g = self.gene(tx)
        return dict(hgnc="X", cds_start_i=g.start, cds_end_i=g.end, tx_ac=tx, alt_ac=alt, alt_aln_method=method)

    def get_tx_identity_info(self, tx):
        g = self.gene(tx)
        return dict(tx_ac=tx, alt_ac=tx, alt_aln_method="transcript", cds_start_i=g.start, cds_end_i=g.end,
                    lengths=[e - s for s, e in g.exons], hgnc="X", translation_table="standard")

    def get_tx_mapping_options(self, tx): return [dict(tx_ac=tx, alt_ac=CONTIG, alt_aln_method="splign")]


def write_genes():
    with gzip.GzipFile("genes.fa.gz", "wb", mtime=0) as f:
        f.write(f">{CONTIG}\n{SEQ}\n".encode())
    rows = ["##gff-version 3"]

    def row(kind, s, e, strand, phase, attributes):
        rows.append("\t".join([CONTIG, "made", kind, str(s + 1), str(e), ".", "+" if strand > 0 else "-", phase, attributes]))

    for i, g in enumerate(GENES):
        s, e = g.span
        row("gene", s, e, g.strand, ".", f"ID=gene-MADE{i + 1};gene=MADE{i + 1};gene_biotype=protein_coding")
        row("mRNA", s, e, g.strand, ".", f"ID=rna-{g.tx};Parent=gene-MADE{i + 1};transcript_id={g.tx}")
        for (a, b), (x, y) in zip(g.exons, g.places):
            row("exon", x, y, g.strand, ".", f"Parent=rna-{g.tx}")
            c, d = max(a, g.start), min(b, g.end)
            if c < d:
                lo, hi = (x + c - a, x + d - a) if g.strand > 0 else (y - (d - a), y - (c - a))
                row("CDS", lo, hi, g.strand, str(-(c - g.start) % 3), f"ID=cds-{g.pro};Parent=rna-{g.tx};protein_id={g.pro}")
    with gzip.GzipFile("genes.gff3.gz", "wb", mtime=0) as f:
        f.write(("\n".join(rows) + "\n").encode())


def random_change(g):
    """A description of a change along the contig, inside the gene."""
    n = random.choice([1, 1, 1, 2, 3, 3, 4, 6, 9])
    if random.random() < 0.75:  # in or beside an exon
        a, b = random.choice(g.places)
        at = random.randint(max(g.span[0] + 1, a - 4), min(g.span[1] - n - 1, b + 3))
    else:
        at = random.randint(g.span[0] + 1, g.span[1] - n - 1)
    ref = SEQ[at:at + n]
    rng = f"{at + 1}" if n == 1 else f"{at + 1}_{at + n}"
    kind = random.choice(["sub", "sub", "del", "dup", "ins", "tandem", "delins", "inv"])
    if kind == "sub":
        return f"{at + 1}{SEQ[at]}>{random.choice([b for b in 'ACGT' if b != SEQ[at]])}"
    if kind in ("del", "dup"):
        return rng + kind
    if kind == "inv":
        return f"{at + 1}_{at + n + 1}inv"
    if kind == "tandem":
        return f"{at + n}_{at + n + 1}ins{ref}"
    new = "".join(random.choices("ACGT", k=random.choice([1, 2, 3, 3, 5, 6])))
    if kind == "ins":
        return f"{at}_{at + 1}ins{new}"
    return rng + "delins" + new


def main():
    write_genes()
    hdp, parser = Provider(), hgvs.parser.Parser()
    mapper = hgvs.variantmapper.VariantMapper(hdp)
    normalizer = hgvs.normalizer.Normalizer(hdp, alt_aln_method="splign", validate=True)
    lines = ["input\tg\tc\tp"]
    while len(lines) <= 4000:
        g = random.choice(GENES)
        text = f"{CONTIG}:g.{random_change(g)}"
        try:
            v = parser.parse_hgvs_variant(text)
            norm_g = normalizer.normalize(v)
            c = mapper.g_to_c(norm_g if g.strand > 0 else v, g.tx, alt_aln_method="splign")
            p = "."
            try:
                c = normalizer.normalize(c)
            except HGVSError:
                pass  # in an intron
            try:
                p = str(mapper.c_to_p(c, g.pro))
            except (HGVSError, NotImplementedError, IndexError, AssertionError) as e:
                p = "!" + type(e).__name__
            lines.append(f"{text}\t{norm_g}\t{c}\t{p}")
        except HGVSError as e:
            lines.append(f"{text}\t!{type(e).__name__}\t.\t.")
    with gzip.GzipFile("golden.tsv.gz", "wb", mtime=0) as f:
        f.write(("\n".join(lines) + "\n").encode())
    write_grammar()


def write_grammar():
    from mutalyzer_hgvs_parser import to_model

    random.seed(21)
    plain, intronic, untranslated = ["5", "76", "?", "(5_7)", "(?_7)"], ["24+1", "25-1", "24+?", "(24+1_25-1)"], ["-6", "*4", "-6+2", "*3-1"]
    seqs = ["A", "AC", "acg", "N", "TTT"]
    heads = ["NC_1.2:g.", "NM_1.2:c.", "NC_1.2(NM_1.2):c.", "NR_1.1:n.", "NC_1.1:m.", "NC_1.1:o."]
    texts = set()
    while len(texts) < 700:
        head = random.choice(heads)
        points = plain + (intronic if head[-2] in "cn" else []) + (untranslated if head[-2] == "c" else [])
        where = random.choice(points)
        if random.random() < 0.5:
            where += "_" + random.choice(points)
        s = random.choice(seqs)
        what = random.choice([s + ">" + random.choice(seqs), "del", "del" + s, "del3", "dup", "dup" + s, "inv", "ins" + s, "ins5_9", "ins5_9inv",
                              f"ins[{s};7_8inv;{s}[3]]", "delins" + s, f"del{s}ins{s}", "=", s + "=", s + "[4]", s + "[4]T[3]", "[4]", "con5_9", "",
                              "ins", "delins", "fs", "foo", "ins[A", "del[", "insNC_2.1:g.5_9", "ins[NC_2.1:g.5_9inv]", s])
        change = where + what
        if random.random() < 0.2:
            change = f"[{change};9A>C]"
        texts.add(head + change)
    with open("../../hgvs/testdata/grammar.tsv", "w") as f:
        for t in sorted(texts):
            try:
                to_model(t)
                f.write(f"{t}\tyes\n")
            except Exception:
                f.write(f"{t}\tno\n")


main()
