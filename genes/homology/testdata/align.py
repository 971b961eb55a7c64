"""Makes align.tsv: pairs of related proteins with their best local score by Biopython's aligner (BLOSUM62, a gap of n costs 11 + n).

python align.py > align.tsv
"""

import random

from Bio.Align import PairwiseAligner, substitution_matrices

LETTERS = "ARNDCQEGHILKMFPSTWYV"


def change(rng, protein, rate, gaps):
    out = []
    for letter in protein:
        if rng.random() < gaps:
            out += rng.choices(LETTERS, k=rng.randint(1, 6))
        if rng.random() < gaps:
            continue
        out.append(rng.choice(LETTERS) if rng.random() < rate else letter)
    return "".join(out)


def main():
    rng = random.Random(45)
    aligner = PairwiseAligner(mode="local", open_gap_score=-12, extend_gap_score=-1)
    aligner.substitution_matrix = substitution_matrices.load("BLOSUM62")
    for i in range(80):
        a = "".join(rng.choices(LETTERS, k=rng.randint(8, 160)))
        b = change(rng, a, (i % 9) / 10, (i % 5) / 100)
        if i % 7 == 0:
            b = "".join(rng.choices(LETTERS + "XBZ", k=20)) + b
        print(a, b or "A", int(aligner.score(a, b or "A")), sep="\t")


if __name__ == "__main__":
    main()
