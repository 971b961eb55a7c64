#!/usr/bin/env python3
"""Write ctc_golden.json: what fast-ctc-decode 0.3.7 makes of posteriors.

Posteriors are written as whole hundred-thousandths, so that both programs read the same
numbers. One set is random; the other, like a network's answer, is mostly sure.
Needs fast-ctc-decode and numpy.
"""
import json
import pathlib

import fast_ctc_decode
import numpy as np

rng = np.random.default_rng(20240501)
cases = []


def quantise(p):
    q = np.floor(p * 100000).astype(int)
    q[np.arange(len(q)), q.argmax(1)] += 100000 - q.sum(1)
    return q


def add(kind, p, width, cut):
    q = quantise(p)
    seq, _ = fast_ctc_decode.beam_search((q / 100000).astype(np.float32), "NACGT", beam_size=width, beam_cut_threshold=cut)
    cases.append({"kind": kind, "width": width, "cut": cut, "posteriors": q.ravel().tolist(), "sequence": seq})


for width in (1, 2, 5, 16):
    for cut in (0.0, 0.01, 0.1):
        add("random", rng.dirichlet(np.full(5, 0.4), size=60), width, cut)
        frames = 150
        p = rng.dirichlet(np.full(5, 0.15), size=frames) * 0.2
        truth = np.where(rng.random(frames) < 0.35, rng.integers(1, 5, frames), 0)
        p[np.arange(frames), truth] += 0.8
        unsure = rng.random(frames) < 0.2
        p[unsure] = 0.5 * p[unsure] + 0.5 * rng.dirichlet(np.full(5, 0.6), size=unsure.sum())
        add("network-like", p, width, cut)

path = pathlib.Path(__file__).with_name("ctc_golden.json")
path.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
