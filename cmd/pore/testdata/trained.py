"""Judges the reads of a FASTQ file as basecall_train judges a model's calls."""

import json
import sys
from pathlib import Path

import mappy
import numpy as np
from basecall_train.alignment import Reference
from basecall_train.evaluation import Errors

reference, errors, identities, aligned = Reference.read(Path(sys.argv[1])), Errors(), [], []
reads = 0
for _, sequence, _ in mappy.fastx_read(sys.argv[2]):
    reads += 1
    hit = reference.best(sequence)
    if hit:
        identities.append(hit.identity)
        aligned.append(hit.aligned)
        errors.add(sequence, hit)
json.dump(
    {
        "reads": reads, "aligned": len(identities), "mean": np.mean(identities), "median": np.median(identities), "part": np.mean(aligned),
        "columns": [int(n) for n in (errors.matches, errors.substitutions, errors.insertions, errors.deletions)],
        "homopolymers": [int(errors.homopolymer_insertions), int(errors.homopolymer_deletions)],
    },
    sys.stdout,
)  # fmt: skip
