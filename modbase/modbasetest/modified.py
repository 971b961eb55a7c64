"""modified.py FILE: what pysam reads of modified bases: name, calls by place in the read, and by place in the reference.

Records of one name are told apart by their place behind it. A record that pysam refuses has "refused" for its calls.
"""
import sys

import pysam

seen = {}
with pysam.AlignmentFile(sys.argv[1], check_sq=False) as f:
    for r in f.fetch(until_eof=True):
        name = r.query_name
        if name in seen:
            seen[name] += 1
            name += "#%d" % seen[name]
        else:
            seen[name] = 0
        forward = r.modified_bases_forward
        if forward is None and r.has_tag("MM"):
            print(name, "refused", "", sep="\t")
            continue
        calls = ["%d:%s:%d:%s:%d" % (at, base, strand, code, p) for (base, strand, code), l in (forward or {}).items() for at, p in l]
        # By the reference: pysam's places are then those of the sequence as it is aligned.
        pairs = r.get_reference_positions(full_length=True) if not r.is_unmapped else []
        flip = 1 if r.is_reverse else 0
        placed = ["%d:%s:%d:%s:%d" % (pairs[at], base, strand ^ flip, code, p)
                  for (base, strand, code), l in ((r.modified_bases if pairs else None) or {}).items() for at, p in l if pairs[at] is not None]
        print(name, " ".join(calls), " ".join(placed), sep="\t")
