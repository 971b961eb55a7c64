#!/usr/bin/env python3
"""A second implementation of the rules in docs/files/demux.md, over edlib.

    oracle.py golden READS.fastq... > golden.tsv      what classify_test.go compares with
    oracle.py again GOLDEN.tsv > golden.tsv           the same of the reads that it has
    oracle.py table READS.fastq...                    the tables in docs/files/demux.md

Needs edlib (PyPI). Reads with known barcodes are made from stretches of the real
basecalls in READS.fastq: adapter, flanks and barcode of a kit are put on their ends
with errors of the kinds and in the proportions that were measured on such basecalls
(errors.py), at several rates. Half of the molecules of a double-ended kit are
sequenced from their other strand.
"""
import random
import sys
import tomllib
from pathlib import Path

import edlib

ANY = [("N", b) for b in "ACGT"]
SLACK = 8
SECOND_FLANK_SCORE = 0.6
TABLE = tomllib.loads((Path(__file__).parent.parent / "kits.toml").read_text())
DEFAULT = dict(max_barcode_penalty=9, min_barcode_penalty_dist=3, min_separation_only_dist=6, barcode_end_proximity=75,
               flank_left_pad=5, flank_right_pad=10, front_barcode_window=175, rear_barcode_window=175,
               min_flank_score=0.5, midstrand_flank_score=0.95)
KITS = ["SQK-RBK004", "SQK-RBK114-96", "EXP-NBD104", "SQK-NBD114-96", "EXP-PBC096", "SQK-PBK004", "SQK-RPB004", "SQK-16S024"]
# Of a hundred errors; measured by errors.py.
SUBSTITUTIONS, INSERTIONS, DELETIONS = 32, 19, 49


def rc(s):
    return s[::-1].translate(str.maketrans("ACGTN", "TGCAN"))


class Kit:
    def __init__(self, name):
        k = next(k for k in TABLE["kit"] if name in k["names"])
        self.name, self.scoring = name, DEFAULT | k.get("scoring", {})
        self.double = "barcode2_pattern" in k
        self.flanks = [(k["mask1_front"], k["mask1_rear"])]
        self.flanks.append((k.get("mask2_front", k["mask1_front"]), k.get("mask2_rear", k["mask1_rear"])))
        prefix = k["barcode1_pattern"].removesuffix("%02i")
        self.numbers = list(range(k["first_index"], k["last_index"] + 1))
        self.barcodes = [TABLE["sequences"][k.get("replace", {}).get(str(i), f"{prefix}{i:02d}")] for i in self.numbers]


def find(pattern, text):
    """Least distance, and start and end of the match that ends first."""
    r = edlib.align(pattern, text, mode="HW", task="locations", additionalEqualities=ANY)
    start, end = r["locations"][0]
    return r["editDistance"], start if start is not None else end + 1, end + 1


class Place:
    def __init__(self, kit, flanks, window):
        self.kit, self.window, (self.outer, self.inner) = kit, window, flanks
        mask = self.outer + "N" * len(kit.barcodes[0]) + self.inner
        self.distance, self.start, self.end = find(mask, window)
        self.score = max(0, 1 - self.distance / (len(self.outer) + len(self.inner)))

    def penalties(self):
        s, n = self.kit.scoring, len(self.kit.barcodes[0])
        left, right = s["flank_left_pad"], s["flank_right_pad"]
        at = self.start + len(self.outer)
        region = self.window[max(0, at - left - SLACK):at + n + right + SLACK]
        padded = [self.outer[len(self.outer) - min(left, len(self.outer)):] + b + self.inner[:right] for b in self.kit.barcodes]
        return [find(p, region)[0] if region else len(p) for p in padded]


def beside(place, text, barcode):
    """Whether another barcode stands right before or behind a place, and where the last that is the same ends."""
    s = place.kit.scoring
    reach = len(place.outer) + len(place.kit.barcodes[0]) + len(place.inner) + 2 * SLACK
    end = place.end
    for start, part in ((place.end, text[place.end:place.end + reach]), (max(0, place.start - reach), text[max(0, place.start - reach):place.start])):
        if not part:
            continue
        second = Place(place.kit, (place.outer, place.inner), part)
        if second.score < max(SECOND_FLANK_SCORE, s["min_flank_score"]):
            continue
        penalties = second.penalties()
        low = sorted(penalties)
        if low[0] > s["max_barcode_penalty"] or len(low) > 1 and low[1] - low[0] < s["min_barcode_penalty_dist"]:
            continue
        if penalties.index(low[0]) != barcode:
            return True, end
        end = max(end, start + second.end)
    return False, end


def classify(kit, seq, both_ends=False):
    s, n = kit.scoring, len(seq)
    head, tail = seq[:s["front_barcode_window"]], rc(seq[max(0, n - s["rear_barcode_window"]):])
    front, rear = Place(kit, kit.flanks[0], head), None
    if kit.double:
        rear = Place(kit, kit.flanks[1], tail)
        if kit.flanks[0] != kit.flanks[1]:
            f2, r2 = Place(kit, kit.flanks[1], head), Place(kit, kit.flanks[0], tail)
            if (max(f2.score, r2.score), min(f2.score, r2.score)) > (max(front.score, rear.score), min(front.score, rear.score)):
                front, rear = f2, r2
    pf = front.penalties()
    pr = rear.penalties() if rear else [10**9] * len(pf)
    overall = [min(f, r) for f, r in zip(pf, pr)]
    best = overall.index(min(overall))
    penalty = overall[best]
    others = overall[:best] + overall[best + 1:]
    margin = min(others) - penalty
    at_rear = pr[best] < pf[best]
    place = rear if at_rear else front
    best_front, best_rear = pf.index(min(pf)), pr.index(min(pr))

    def judge():
        near = penalty <= s["max_barcode_penalty"]
        if near and place.score < s["min_flank_score"]:
            return "no_barcode"
        if near and margin < s["min_barcode_penalty_dist"]:
            return "ambiguous"
        if not near and margin < s["min_separation_only_dist"]:
            return "no_barcode"
        if place.start > s["barcode_end_proximity"]:
            return "far_from_end"
        if kit.double:
            ends = [(best_front, pf[best_front]), (best_rear, pr[best_rear])]
            if any(b != best and p <= s["max_barcode_penalty"] for b, p in ends):
                return "ends_disagree"
            if both_ends and not all(b == best and p <= s["max_barcode_penalty"] for b, p in ends):
                return "one_end"
        middle = seq[s["front_barcode_window"]:n - s["rear_barcode_window"]] if n > s["front_barcode_window"] + s["rear_barcode_window"] else ""
        for o, i in (kit.flanks if kit.double else kit.flanks[:1]):
            if middle and 1 - find(o + "N" * len(kit.barcodes[0]) + i, middle)[0] / len(o + i) >= s["midstrand_flank_score"]:
                return "midstrand"
        return "found"

    reason = judge()
    if reason == "found":
        for p, penalties, text in ((front, pf, seq), (rear, pr, rc(seq))):
            counts = p and (p is place or penalties.index(min(penalties)) == best and min(penalties) <= s["max_barcode_penalty"]
                            and p.score >= s["min_flank_score"])
            if counts:
                other, p.end = beside(p, text, best)
                if other:
                    reason = "second_barcode"
    return dict(barcode=f"barcode{kit.numbers[best]:02d}" if reason == "found" else "unclassified", reason=reason,
                penalty=penalty, margin=margin, front=(pf[best_front], front.start, front.end, front.score),
                rear=(pr[best_rear], n - rear.end, n - rear.start, rear.score) if rear else None)


def damage(seq, rate, rng):
    """A sequence with errors at a rate per base."""
    out = []
    for b in seq:
        if rng.random() >= rate:
            out.append(b)
            continue
        kind = rng.randrange(SUBSTITUTIONS + INSERTIONS + DELETIONS)
        if kind < SUBSTITUTIONS:
            out.append(rng.choice([x for x in "ACGT" if x != b]))
        elif kind < SUBSTITUTIONS + INSERTIONS:
            out += [rng.choice("ACGT"), b]
    return "".join(out)


ADAPTER, REAR_ADAPTER = "CCTGTACTTCGTTCAGTTACGTATTGCT", "AGCAATACGTAACTGAAC"


def barcoded(kit, i, insert, rate, rng, ends):
    """A read of barcode i. ends: which ends have it, '', 'f', 'r' or 'fr'."""
    f = list(kit.flanks)
    if kit.double and rng.random() < 0.5:
        f.reverse()
    front = ADAPTER[rng.randrange(20):] + (f[0][0] + kit.barcodes[i] + f[0][1] if "f" in ends else "")
    rear = (rc(f[1][0] + kit.barcodes[i] + f[1][1]) if "r" in ends else "") + REAR_ADAPTER[:rng.randrange(len(REAR_ADAPTER))]
    return damage(front, rate, rng) + insert + damage(rear, rate, rng)


def inserts(paths):
    reads = []
    for path in paths:
        lines = Path(path).read_text().split("\n")
        reads += [s for s in lines[1::4] if len(s) > 1500]
    return reads


def stretch(reads, rng, n):
    r = rng.choice(reads)
    at = rng.randrange(300, len(r) - n - 300)
    return r[at:at + n]


def cases(kit, rate, n, reads, seed):
    rng = random.Random(f"{kit.name} {rate} {seed}")
    for j in range(n):
        ends = rng.choices(["fr", "f", "r", ""], [8, 1, 1, 1])[0] if kit.double else rng.choices(["f", ""], [10, 1])[0]
        i = rng.randrange(len(kit.barcodes))
        yield i if ends else None, barcoded(kit, i, stretch(reads, rng, rng.randrange(150, 500)), rate, rng, ends)


def golden(reads):
    print("#kit\tboth_ends\ttruth\trate\tsequence\tbarcode\treason\tpenalty\tmargin\tfront\trear")
    for name in KITS:
        kit = Kit(name)
        for rate in (0.0, 0.05, 0.08, 0.12, 0.16, 0.2):
            for j, (truth, seq) in enumerate(cases(kit, rate, 20, reads, "golden")):
                both = kit.double and j % 4 == 3
                known = f"barcode{kit.numbers[truth]:02d}" if truth is not None else "-"
                if j % 10 == 9:  # two molecules in one read
                    seq += seq if rate == 0 else barcoded(kit, 0, stretch(reads, random.Random(j), 300), rate, random.Random(f"{j} {name}"), "fr")
                    known = "two"
                r = classify(kit, seq, both)
                end = lambda e: "-" if e is None else f"{e[0]},{e[1]},{e[2]},{e[3]:.6f}"
                print(kit.name, int(both), known, rate, seq, r["barcode"], r["reason"],
                      r["penalty"], r["margin"], end(r["front"]), end(r["rear"]), sep="\t")


def again(lines):
    """Golden reads as they are judged now, and for each kit reads with two barcodes at one end."""
    cells = [line.split("\t") for line in lines if line[0] != "#" and line.split("\t")[2] not in ("same", "other")]
    print("#kit\tboth_ends\ttruth\trate\tsequence\tbarcode\treason\tpenalty\tmargin\tfront\trear")
    cells += tandems(cells)
    for name, both, truth, rate, seq, *_ in cells:
        r = classify(Kit(name), seq, both == "1")
        end = lambda e: "-" if e is None else f"{e[0]},{e[1]},{e[2]},{e[3]:.6f}"
        print(name, both, truth, rate, seq, r["barcode"], r["reason"], r["penalty"], r["margin"], end(r["front"]), end(r["rear"]), sep="\t")


def tandems(cells):
    """Reads with the same barcode twice or with two at the front, one behind the other."""
    made = []
    for name in KITS:
        kit, rng = Kit(name), random.Random(f"tandem {name}")
        insert = next(c[4] for c in cells if c[0] == name and c[2] == "-")[60:-60]
        for j in range(12):
            i, rate = rng.randrange(len(kit.barcodes)), (0, 0.05, 0.08, 0.12)[j % 4]
            k = i if j % 3 == 0 else (i + 1 + rng.randrange(len(kit.barcodes) - 1)) % len(kit.barcodes)
            (outer, inner), other = kit.flanks[0], kit.flanks[1]
            second = outer[min(6, len(outer) // 3):] + kit.barcodes[k] + inner  # without what the sequencing adapter brings
            front = damage(ADAPTER + outer + kit.barcodes[i] + inner + second, rate, rng)
            rear = damage(rc(other[0] + kit.barcodes[k] + other[1]) if kit.double and j % 2 else "", rate, rng)
            read = front + insert + rear
            made.append([name, "0", "same" if i == k else "other", str(rate), rc(read) if kit.double and j > 5 else read])
    return made


def table(reads, n=1000):
    print("| kit | " + " | ".join(f"{r:.0%}" for r in RATES) + " | none |")
    print("| --- |" + " --- |" * (len(RATES) + 1))
    for name in KITS:
        kit, row = Kit(name), []
        for rate in RATES:
            right = wrong = 0
            rng = random.Random(f"table {name} {rate}")
            for _ in range(n):
                i = rng.randrange(len(kit.barcodes))
                seq = barcoded(kit, i, stretch(reads, rng, 400), rate, rng, "fr" if kit.double else "f")
                got = classify(kit, seq)["barcode"]
                right += got == f"barcode{kit.numbers[i]:02d}"
                wrong += got not in ("unclassified", f"barcode{kit.numbers[i]:02d}")
            row.append(f"{100 * right / n:.1f} / {100 * wrong / n:.1f}")
        rng = random.Random(f"none {name}")
        wrong = sum(classify(kit, barcoded(kit, 0, stretch(reads, rng, 400), 0.12, rng, ""))["reason"] == "found" for _ in range(n))
        print(f"| {name} | " + " | ".join(row) + f" | {100 * wrong / n:.1f} |", flush=True)


RATES = (0.05, 0.08, 0.12, 0.16, 0.2)

if __name__ == "__main__":
    if sys.argv[1] == "again":
        again(Path(sys.argv[2]).read_text().splitlines())
    else:
        {"golden": golden, "table": table}[sys.argv[1]](inserts(sys.argv[2:]))
