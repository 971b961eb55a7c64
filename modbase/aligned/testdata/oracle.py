#!/usr/bin/env python3
"""oracle.py READS REF SETTING...: bedMethyl of modified bases, slow and simple; a line # behind each setting's.

A setting is THRESHOLD|pPERCENTILE/MOTIFS/combine|/combine|/HP|: motifs with ; between, whether strands and whether
kinds are combined, and a haplotype or unphased; what is empty is not asked for.

Every position of every read is looked at for itself, with fractions for probabilities. pysam reads records and
alignments; MM is read here, as pysam doesn't tell what bases are that aren't listed.
"""
import re
import sys
from collections import defaultdict
from fractions import Fraction
from math import ceil, floor

import pysam

path, ref = sys.argv[1:3]
turn = str.maketrans("ACGT", "TGCA")
genome = pysam.FastaFile(ref)


def order(code):
    """Letters, and then numbers."""
    return (len(code) > 1 or code.isdigit(), int(code) if code.isdigit() else 0, code)


def lists(r):
    """(base, opposite, codes, implicit, {place: [q, ...]}) of a read; None if they can't be used."""
    if not r.has_tag("MM"):
        return []
    if r.has_tag("MN") and r.get_tag("MN") != r.query_length:
        return None
    seq, out, ml, used = r.get_forward_sequence(), [], list(r.get_tag("ML")) if r.has_tag("ML") else None, 0
    for entry in r.get_tag("MM").split(";")[:-1]:
        base, strand, codes, mode, rest = re.fullmatch(r"([ACGTUN])([-+])([a-zA-Z]+|\d+)([.?]?)((?:,\d+)*)", entry).groups()
        codes = [codes] if codes[0].isdigit() else list(codes)
        base = base.replace("U", "T")
        of = [i for i, b in enumerate(seq) if base in ("N", b)]
        at, calls = -1, {}
        for skip in map(int, rest.split(",")[1:]):
            at += skip + 1
            if at >= len(of) or ml is None:
                return None
            calls[of[at]] = ml[used:used + len(codes)]
            used += len(codes)
            if len(calls[of[at]]) < len(codes):
                return None
        out.append((base, strand == "-", codes, mode != "?", calls))
    return out if ml is None or used == len(ml) else None


def judged(r):
    """{opposite: {place: {code: p}}}, {opposite: {base: codes looked for}}."""
    seq, places, looked = r.get_forward_sequence(), {False: {}, True: {}}, {False: defaultdict(set), True: defaultdict(set)}
    for base, opposite, codes, implicit, calls in lists(r) or []:
        for i, b in enumerate(seq):
            if b == "N" or base not in ("N", b) or not (implicit or i in calls):
                continue
            p = places[opposite].setdefault(i, defaultdict(Fraction))
            for k, code in enumerate(codes):
                looked[opposite][b.translate(turn) if opposite else b].add(code)
                p[code] += Fraction(2 * calls[i][k] + 1, 512) if i in calls else 0
    for of in places.values():
        if any(sum(p.values()) > Fraction(101, 100) for p in of.values()):
            return {False: {}, True: {}}, {False: {}, True: {}}
    return places, looked


def best(p):
    """What is most probable, with its probability: the base before its modifications, and of those the last."""
    rest = max(Fraction(0), 1 - sum(p.values()))
    code = max(p, key=lambda c: (p[c], order(c)))
    return ("-", rest) if rest >= p[code] else (code, p[code])


def aligned_pairs(r):
    """(place in the read or None, position or None) of every base, as pysam's get_aligned_pairs, which takes padding for bases of the read."""
    q, p = 0, r.reference_start
    for op, length in r.cigartuples:
        in_read, in_reference = op in (0, 1, 4, 7, 8), op in (0, 2, 3, 7, 8)
        for k in range(length if in_read or in_reference else 0):
            yield q + k if in_read else None, p + k if in_reference else None
        q, p = q + length * in_read, p + length * in_reference


everything = []
with pysam.AlignmentFile(path) as f:
    for r in f.fetch(until_eof=True):
        if r.is_unmapped or r.is_secondary or r.is_supplementary or r.is_duplicate or r.is_qcfail or not r.query_sequence:
            continue
        everything.append((r, *judged(r)))


def pile(threshold, motifs, strands, kinds, haplotype):
    """Print the rows of a setting."""
    reads = [r for r in everything if haplotype in ("", str(r[0].get_tag("HP") if r[0].has_tag("HP") else "unphased"))]
    least = defaultdict(Fraction)
    if threshold[0] == "p":
        share, of = Fraction(threshold[1:]), defaultdict(list)
        for r, places, _ in reads:
            seq, n = r.get_forward_sequence(), r.query_length
            there = {n - 1 - q if r.is_reverse else q for q, p in aligned_pairs(r) if q is not None and p is not None}
            for opposite, calls in places.items():
                for i, p in calls.items():
                    if i in there:
                        of[seq[i].translate(turn) if opposite else seq[i]].append(best(p)[1])
        for base, all_of in of.items():
            all_of.sort()
            at = (len(all_of) - 1) * share
            x, y = all_of[floor(at)], all_of[ceil(at)]
            least[base] = x + (y - x) * (at - floor(at))
    else:
        least = defaultdict(lambda: Fraction(threshold))

    # (contig, position, strand) -> counts
    sites = defaultdict(lambda: {"del": 0, "fail": 0, "none": defaultdict(int), "called": defaultdict(lambda: defaultdict(int)), "looked": defaultdict(set)})
    for r, places, looked in reads:
        seq, n, contig = r.get_forward_sequence(), r.query_length, r.reference_name
        own, other = ("-", "+") if r.is_reverse else ("+", "-")
        skipped = set()
        at = r.reference_start
        for op, length in r.cigartuples:
            if op == 3:
                skipped.update(range(at, at + length))
            if op in (0, 2, 3, 7, 8):
                at += length
        for q, p in aligned_pairs(r):
            if p is None or p in skipped:
                continue
            here = {False: sites[contig, p, own], True: sites[contig, p, other]}
            for opposite, site in here.items():
                for base, codes in looked[opposite].items():
                    site["looked"][base] |= codes
            if q is None:
                here[False]["del"] += 1
                continue
            i = n - 1 - q if r.is_reverse else q
            base = seq[i]
            if base == "N":
                continue
            said = False
            for opposite, site in here.items():
                if i in places[opposite]:
                    said = True
                    what, probability = best(places[opposite][i])
                    called = base.translate(turn) if opposite else base
                    if probability < least[called]:
                        site["fail"] += 1
                    else:
                        site["called"][called][what] += 1
            if not said:
                here[False]["none"][base] += 1

    iupac = {"A": "A", "C": "C", "G": "G", "T": "T", "N": "ACGT", "W": "AT", "R": "AG", "Y": "CT", "S": "CG", "K": "GT", "M": "AC", "B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG"}
    wanted = defaultdict(list)  # (contig, position, strand) -> [(motif, place on the plus strand)]
    names = [] if not motifs else motifs.split(";")
    for m, name in enumerate(names):
        letters, offset = name.split(",")
        offset = int(offset)
        back = "".join({"".join(sorted(v)): k for k, v in iupac.items()}["".join(sorted(iupac[b].translate(turn)))] for b in reversed(letters))
        for contig in genome.references:
            s = genome.fetch(contig).upper()
            for i in range(len(s) - len(letters) + 1):
                if all(s[i + k] in iupac[b] for k, b in enumerate(letters)):
                    wanted[contig, i + offset, "+"].append((m, i + offset))
                if all(s[i + k] in iupac[b] for k, b in enumerate(back)):
                    wanted[contig, i + len(letters) - 1 - offset, "-"].append((m, i + offset))

    rows = defaultdict(lambda: [0] * 7)
    for (contig, pos, strand), site in sites.items():
        for base, called in site["called"].items():
            canonical, changed = called.get("-", 0), sum(v for k, v in called.items() if k != "-")
            total = sum(site["none"].values()) + sum(sum(c.values()) for c in site["called"].values())
            none = site["none"].get(base, 0)
            different = total - none - canonical - changed
            for code in [base] if kinds == "combine" else site["looked"][base]:
                count = changed if kinds == "combine" else called.get(code, 0)
                numbers = [count, canonical, changed - count, site["del"], site["fail"], different, none]
                for m, at in wanted[contig, pos, strand] if names else [(-1, pos)]:
                    key = (contig, at, ".", code, m, "") if strands == "combine" else (contig, pos, strand, code, m, base)
                    rows[key] = [a + b for a, b in zip(rows[key], numbers)]

    contigs = {c: i for i, c in enumerate(genome.references)}


    def place(key):
        contig, pos, strand, code, m, base = key
        return (contigs[contig], pos, strand, *((m, order(code)) if strands == "combine" else (order(code), base, m)))


    for key in sorted(rows, key=place):
        contig, pos, strand, code, m, _ = key
        n = rows[key]
        valid = n[0] + n[1] + n[2]
        name = code if len(names) < 2 else code + "," + names[m]
        percent = "%.2f" % (100 * n[0] / valid)
        print(contig, pos, pos + 1, name, valid, strand, pos, pos + 1, "255,0,0", valid, percent, *n, sep="\t")


for setting in sys.argv[3:]:
    pile(*setting.split("/"))
    print("#")
