"""Compares INFO/OpenSpliceAI of a VCF with that of another, which has more decimals: python eval-splice.py HAVE WANT. Ends with 1 if an entry differs."""

import sys


def read(path):
    entries = {}
    for line in open(path):
        if line.startswith("#"):
            continue
        f = line.rstrip("\n").split("\t")
        values = [x.removeprefix("OpenSpliceAI=") for x in f[7].split(";") if x.startswith("OpenSpliceAI=")]
        entries[f[0], f[1], f[3], f[4]] = values[0].split(",") if values else []
    return entries


def equal(have, want):
    have, want = have.split("|"), want.split("|")
    if len(have) != len(want) or have[:2] != want[:2] or have[6:] != want[6:]:
        return False
    # Half of the last decimal of one, and of the other's.
    return all(x == y if "." in (x, y) else abs(float(x) - float(y)) <= 0.00505 for x, y in zip(have[2:6], want[2:6]))


have, want = read(sys.argv[1]), read(sys.argv[2])
wrong = 0
for variant, entries in want.items():
    others = have.get(variant, [])
    if len(others) != len(entries) or not all(map(equal, others, entries)):
        wrong += 1
        print("differs:", *variant, "has", ",".join(others), "wants", ",".join(entries))
extra = [v for v in have if v not in want and have[v]]
print(f"{len(want)} variants, {sum(map(len, want.values()))} entries, {wrong} variants differ, {len(extra)} have an entry that the other has not")
sys.exit(wrong + len(extra) > 0)
