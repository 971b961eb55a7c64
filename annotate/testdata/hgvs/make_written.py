#!/usr/bin/env python3
"""Makes written.tsv: descriptions as people write them, with the normal form along the contig by biocommons hgvs 1.5.7
and whether mutalyzer-hgvs-parser 0.4.0 takes the spelling.

Usage: pip install hgvs==1.5.7 mutalyzer-hgvs-parser==0.4.0 && python3 make_written.py > written.tsv

Each row has a kind, the description, "yes" or "no" of mutalyzer's grammar, and what is right: a g. description, or "!" and
words of the error. Positions along transcripts are counted here, by the rows of genes.gff3.gz, and not by any library.
"""
import gzip
import random

import hgvs.normalizer
import hgvs.parser
from hgvs.dataproviders.interface import Interface
from mutalyzer_hgvs_parser import to_model

random.seed(48)
CONTIG = "NC_900001.1"
SEQ = "".join(gzip.open("genes.fa.gz", "rt").read().split("\n")[1:])
COMPLEMENT = str.maketrans("ACGT", "TGCA")


def revcomp(s):
    return s.translate(COMPLEMENT)[::-1]


class Provider(Interface):
    """Only the contig's sequence."""

    required_version, url = "1.1", "local"

    def data_version(self): return "1"
    def schema_version(self): return "1.1"
    def get_seq(self, ac, start=None, end=None): return SEQ[start:end]
    def get_assembly_map(self, name): return {CONTIG: "1"}


for _name in list(getattr(Interface, "__abstractmethods__", [])):
    if _name not in Provider.__dict__:
        setattr(Provider, _name, lambda self, *a, **k: None)
Provider.__abstractmethods__ = frozenset()

PARSER = hgvs.parser.Parser()
NORMALIZER = hgvs.normalizer.Normalizer(Provider(), alt_aln_method="splign", validate=False)


class Transcript:
    def __init__(self, number):
        self.id, self.pro, self.gene = f"NM_90000{number}.2", f"NP_90000{number}.1", f"MADE{number}"
        rows = [r.split("\t") for r in gzip.open("genes.gff3.gz", "rt").read().splitlines() if f"Parent=rna-{self.id}" in r]
        self.strand = rows[0][6]
        exons = sorted((int(r[3]), int(r[4])) for r in rows if r[2] == "exon")
        cds = [(int(r[3]), int(r[4])) for r in rows if r[2] == "CDS"]
        bases = [p for a, b in exons for p in range(a, b + 1)]
        first, last = min(a for a, _ in cds), max(b for _, b in cds)
        if self.strand == "-":
            bases, first, last = bases[::-1], last, first
        self.bases, self.start, self.stop = bases, bases.index(first), bases.index(last)
        self.step = 1 if self.strand == "+" else -1

    def exonic(self, pos):
        i = self.bases.index(pos)
        if i < self.start:
            return str(i - self.start)
        return f"*{i - self.stop}" if i > self.stop else str(i - self.start + 1)

    def c(self, pos):
        """The number of a base of the contig, in exons, introns and beside the transcript."""
        if pos in self.bases:
            return self.exonic(pos)
        before = (self.bases[0] - pos) * self.step
        if before > 0:
            return str(-self.start - before)
        after = (pos - self.bases[-1]) * self.step
        if after > 0:
            return f"*{len(self.bases) - 1 - self.stop + after}"
        left = max((b for b in self.bases if (pos - b) * self.step > 0), key=lambda b: b * self.step)
        right = min((b for b in self.bases if (b - pos) * self.step > 0), key=lambda b: b * self.step)
        from_left, to_right = (pos - left) * self.step, (right - pos) * self.step
        return f"{self.exonic(left)}+{from_left}" if from_left <= to_right else f"{self.exonic(right)}-{to_right}"

    def range(self, a, b):
        """The bases a to b of the contig, in the transcript's direction."""
        if self.strand == "-":
            a, b = b, a
        return self.c(a) if a == b else f"{self.c(a)}_{self.c(b)}"

    def read(self, s):
        return s if self.strand == "+" else revcomp(s)


TRANSCRIPTS = [Transcript(i) for i in range(1, 9)]
ROWS, SEEN = [], set()


def normal(change):
    return str(NORMALIZER.normalize(PARSER.parse_hgvs_variant(f"{CONTIG}:g.{change}")))


def taken(text):
    try:
        to_model(text)
        return "yes"
    except Exception:
        return "no"


def row(kind, text, right):
    if text not in SEEN:
        SEEN.add(text)
        ROWS.append((kind, text, taken(text), right))


def span(a, b):
    return str(a) if a == b else f"{a}_{b}"


def other(s):
    """Bases that differ from s at both ends."""
    return random.choice([x for x in "ACGT" if x != s[0]]) + "".join(random.choices("ACGT", k=random.randint(0, 2))) + random.choice([x for x in "ACGT" if x != s[-1]])


def stretch(t, n, within=None):
    """n bases of an exon of t, with 4 more on each side in the same exon."""
    while True:
        i = random.randrange(5, len(t.bases) - n - 5)
        part = t.bases[i - 4:i + n + 4]
        if abs(part[0] - part[-1]) == n + 7 and (within is None or within(i)):
            a, b = sorted((t.bases[i], t.bases[i + n - 1]))
            return a, b, SEQ[a - 1:b]


def counted(t, a, b):
    """The ways to say where a to b is: prefix, range, and how bases are read there."""
    plain = lambda s: s
    ways = [(f"{CONTIG}:g.", span(a, b), plain), (f"{t.id}:c.", t.range(a, b), t.read), (f"{CONTIG}({t.id}):c.", t.range(a, b), t.read)]
    return random.choice(ways)


def spelled():
    for _ in range(14):
        t = random.choice(TRANSCRIPTS)
        n = random.choice([1, 1, 2, 3, 4])
        a, b, ref = stretch(t, n)
        for kind in ("del", "dup", "inv"):
            if kind == "inv" and (n == 1 or revcomp(ref) == ref):
                continue
            head, where, read = counted(t, a, b)
            row("bases spelt out", f"{head}{where}{kind}{read(ref)}", normal(span(a, b) + kind))
            head, where, read = counted(t, a, b)
            row("number spelt out", f"{head}{where}{kind}{n}", normal(span(a, b) + kind))
        new = other(ref)
        head, where, read = counted(t, a, b)
        row("bases spelt out", f"{head}{where}del{read(ref)}ins{read(new)}", normal(f"{span(a, b)}delins{new}"))
        wrong = ref.translate(str.maketrans("ACGT", "CGTA"))
        row("wrong bases", f"{CONTIG}:g.{span(a, b)}del{wrong}", "!but the reference has")
        row("wrong number", f"{CONTIG}:g.{span(a, b)}dup{n + 1}", f"!says {n + 1} bases")


def substitutions():
    for _ in range(16):
        t = random.choice(TRANSCRIPTS)
        n = random.choice([1, 1, 2, 3])
        a, b, ref = stretch(t, n)
        new = other(ref)
        head, where, read = counted(t, a, b)
        row("several bases by >", f"{head}{where}{read(ref)}>{read(new)}", normal(f"{span(a, b)}delins{new}"))
        if n == 1:
            one = random.choice([x for x in "ACGT" if x != ref])
            head, where, read = counted(t, a, b)
            row("> without the base", f"{head}{where}>{read(one)}", normal(f"{a}{ref}>{one}"))


def selectors():
    for t in TRANSCRIPTS:
        a, b, ref = stretch(t, 1, within=lambda i: t.start < i < t.stop)
        new = random.choice([x for x in "ACGT" if x != ref])
        change = f"c.{t.c(a)}{t.read(ref)}>{t.read(new)}"
        for name in (f"{CONTIG}({t.gene})", f"{CONTIG}({t.gene}_v001)", f"{CONTIG}({t.gene}_i001)", f"{CONTIG}({t.pro})", f"{t.id}({t.gene})", t.gene,
                     t.id.split(".")[0]):
            row("symbols and selectors", f"{name}:{change}", normal(f"{a}{ref}>{new}"))
        row("selector of another transcript", f"{CONTIG}({t.gene}_v002):{change}", "!one coding transcript")


def repeats():
    while sum(r[0] == "repeat" for r in ROWS) < 30:
        t = random.choice(TRANSCRIPTS)
        k = random.choice([1, 2, 3])
        a, _, unit = stretch(t, k)
        if len(set(unit)) == 1 and k > 1:
            continue
        start, end = a - 1, a - 1
        while SEQ[end:end + k] == unit:
            end += k
        while SEQ[start - k:start] == unit:
            start -= k
        have = (end - start) // k
        if have < 2 or not all(p in t.bases for p in range(start - 5, end + 6)):
            continue
        n = random.choice([have - 1, have + 1, have + 2, 2 * have, have + 3])
        right = normal(f"{start + 1}_{end}del") if n == 0 else normal(f"{start + 1}_{end}delins{unit * n}")
        head, where, read = counted(t, start + 1, end)
        row("repeat", f"{head}{where}{read(unit)}[{n}]", right)
        row("repeat", f"{CONTIG}:g.{start + 1}{unit}[{n}]", right)


def ranges():
    for _ in range(16):
        t = random.choice(TRANSCRIPTS)
        a, b, ref = stretch(t, 4)
        x, y, copy = stretch(t, random.randint(4, 9))
        for inverted in (False, True):
            new = revcomp(copy) if inverted else copy
            end = "inv" if inverted else ""
            row("inserted range", f"{CONTIG}:g.{a}_{a + 1}ins{x}_{y}{end}", normal(f"{a}_{a + 1}ins{new}"))
            first, second = (a, a + 1) if t.strand == "+" else (a + 1, a)
            row("inserted range", f"{t.id}:c.{t.c(first)}_{t.c(second)}ins{t.range(x, y)}{end}", normal(f"{a}_{a + 1}ins{new}"))
        if copy[0] != ref[0] and copy[-1] != ref[-1]:
            row("inserted range", f"{CONTIG}:g.{a}_{b}delins{x}_{y}", normal(f"{a}_{b}delins{copy}"))
        row("inserted range", f"{CONTIG}:g.{a}_{a + 1}ins[{x}_{y};ACG]", normal(f"{a}_{a + 1}ins{copy}ACG"))


def flanks():
    for t in TRANSCRIPTS:
        for first in (True, False):
            edge = t.bases[0] if first else t.bases[-1]
            out = -t.step if first else t.step  # away from the transcript
            beside = edge + 10 * out
            new = random.choice([x for x in "ACGT" if x != SEQ[beside - 1]])
            change = f"{t.read(SEQ[beside - 1])}>{t.read(new)}"
            row("beside the transcript", f"{CONTIG}({t.id}):c.{t.c(beside)}{change}", normal(f"{beside}{SEQ[beside - 1]}>{new}"))
            row("beside the transcript", f"{CONTIG}({t.id}):c.{t.c(edge)}{'-' if first else '+'}10{change}", normal(f"{beside}{SEQ[beside - 1]}>{new}"))
            a, b = sorted((beside, edge - 3 * out))
            row("across the border", f"{CONTIG}({t.id}):c.{t.range(a, b)}del", normal(f"{a}_{b}del"))
            row("no genome", f"{t.id}:c.{t.c(beside)}{change}", "!lies outside transcript")
        a, b = t.bases[0] - 4 * t.step, t.bases[-1] + 4 * t.step
        row("across the border", f"{CONTIG}({t.gene}):c.{t.range(*sorted((a, b)))}del", normal("{}_{}del".format(*sorted((a, b)))))


def brackets():
    for _ in range(12):
        t = random.choice(TRANSCRIPTS)
        a, b, ref = stretch(t, 2)
        if ref[0] == ref[1] or SEQ[b] == ref[1]:
            continue
        head, _, read = counted(t, a, a)
        number = (lambda p: str(p)) if ":g." in head else t.c
        parts = [f"{number(a)}=", f"{number(b)}del"]
        if ":c." in head and t.strand == "-":
            parts.reverse()
            if SEQ[a - 1] == SEQ[b]:
                continue
        row("an equal base beside", f"{head}[{';'.join(parts)}]", normal(str(b) + "del"))
        row("overlapping", f"{CONTIG}:g.[{a}_{b}del;{b}{ref[1]}>{'A' if ref[1] != 'A' else 'C'}]", "!overlap")


def units():
    """Copies in the place of one unit, and copies of units of any length outside the coding sequence."""
    for _ in range(14):
        t = random.choice(TRANSCRIPTS)
        k = random.choice([1, 2, 3])
        a, b, unit = stretch(t, k)
        if k == 1:  # one position is where a run begins
            continue
        n = random.choice([0, 2, 3, 4])
        right = normal(f"{span(a, b)}del") if n == 0 else normal(f"{span(a, b)}delins{unit * n}")
        head, where, read = counted(t, a, b)
        row("unit and range", f"{head}{where}{read(unit)}[{n}]", right)
    while sum(r[0] == "repeat outside coding sequence" for r in ROWS) < 24:
        t = random.choice(TRANSCRIPTS)
        low, high = sorted((t.bases[0], t.bases[-1]))
        a = random.randrange(low + 5, high - 5)
        k = random.choice([1, 1, 2, 4])
        unit = SEQ[a - 1:a - 1 + k]
        start, end = a - 1, a - 1
        while SEQ[end:end + k] == unit:
            end += k
        while SEQ[start - k:start] == unit:
            start -= k
        inside = range(start - 3, end + 4)
        coding = range(*sorted((t.bases[t.start], t.bases[t.stop] + 1)))
        exonic = [p in t.bases for p in inside]
        if (end - start) // k < 2 or any(exonic) and (not all(exonic) or any(p in coding for p in inside)) or not low < inside[0] < inside[-1] < high:
            continue
        n = (end - start) // k + random.choice([2, 3, 7])
        row("repeat outside coding sequence", f"{t.id}:c.{t.range(start + 1, end)}{t.read(unit)}[{n}]", normal(f"{start + 1}_{end}delins{unit * n}"))


def ends():
    for t in TRANSCRIPTS[:4]:
        n = random.randint(2, 9)
        a, b, ref = stretch(t, 4)
        row("pter and qter", f"{CONTIG}:g.pter_{n}del", normal(f"1_{n}del"))
        row("pter and qter", f"{CONTIG}:g.{len(SEQ) - n}_qterdel", normal(f"{len(SEQ) - n}_{len(SEQ)}del"))
        row("pter and qter", f"{CONTIG}:g.{a}_{a + 1}inspter_{n}", normal(f"{a}_{a + 1}ins{SEQ[:n]}"))
        row("pter and qter", f"{CONTIG}:g.{a}_{a + 1}ins[{len(SEQ) - n}_qterinv;T]", normal(f"{a}_{a + 1}ins{revcomp(SEQ[-n - 1:])}T"))
        first, last = t.bases[0], t.bases[n]
        if abs(last - first) == n:
            x, y = sorted((first, last))
            row("pter and qter", f"{t.id}:c.pter_{t.c(last)}del", normal(f"{x}_{y}del"))


def sources():
    for t in TRANSCRIPTS:
        a, b, ref = stretch(t, 4)
        first, second = (a, a + 1) if t.strand == "+" else (a + 1, a)
        at = f"{t.c(first)}_{t.c(second)}"
        i = next(i for i in range(1, len(t.bases)) if abs(t.bases[i] - t.bases[i - 1]) > 1)
        x, y = t.bases[i - 3], t.bases[i + 2]
        low, high = sorted((x, y))
        where = f"{t.c(x)}_{t.c(y)}"
        row("range of the genome", f"{CONTIG}({t.id}):c.{at}ins{where}", normal(f"{a}_{a + 1}ins{SEQ[low - 1:high]}"))
        spliced = "".join(SEQ[p - 1] for p in sorted(t.bases[i - 3:i + 3]))
        row("range of a transcript", f"{t.id}:c.{at}ins{where}", normal(f"{a}_{a + 1}ins{spliced}"))
        row("range of a transcript", f"{CONTIG}:g.{a}_{a + 1}ins[{t.id}:c.{where}]", normal(f"{a}_{a + 1}ins{t.read(spliced)}"))
        row("one copied base", f"{CONTIG}:g.{b}delins{CONTIG}:g.{low}", normal(f"{b}{SEQ[b - 1]}>{SEQ[low - 1]}") if SEQ[b - 1] != SEQ[low - 1] else f"{CONTIG}:g.{b}=")
        row("inserted without a type", f"{CONTIG}:g.{a}_{a + 1}ins{CONTIG}:{low}_{high}", "!no coordinate type")


for make in (spelled, substitutions, selectors, repeats, ranges, flanks, brackets, units, ends, sources):
    make()
for r in ROWS:
    print("\t".join(r))
