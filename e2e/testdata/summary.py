"""Checks the tags of a BAM file of reads against the types that Dorado documents, and
writes the table that `pore summary` should write of it, by pysam's own means."""

import sys
from datetime import datetime

import pysam

TYPES = {
    "RG": "Z", "qs": "f", "du": "f", "ns": "i", "ts": "i", "mx": "i", "ch": "i", "st": "Z", "rn": "i", "fn": "Z",
    "sm": "f", "sd": "f", "sv": "Z", "mv": "B", "er": "Z", "po": "Z", "NM": "i", "AS": "i", "dx": "i", "de": "f", "SA": "Z",
}
COLUMNS = """filename read_id run_id channel mux start_time duration template_start template_duration sequence_length_template
mean_qscore_template barcode end_reason pore_type alignment_genome alignment_genome_start alignment_genome_end alignment_strand_start
alignment_strand_end alignment_direction alignment_length alignment_num_aligned alignment_num_correct alignment_num_insertions
alignment_num_deletions alignment_num_substitutions alignment_mapq alignment_strand_coverage alignment_identity alignment_accuracy parent_read_id start_time_utc""".split()



def instant(text):
    """A time of a header or a tag."""
    text = text.replace("Z", "+0000")
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z" if "." in text else "%Y-%m-%dT%H:%M:%S%z")


print("\t".join(COLUMNS))
with pysam.AlignmentFile(sys.argv[1], check_sq=False) as bam:
    runs = {g["ID"]: dict(f.split("=") for f in g["DS"].split())["runid"] for g in bam.header.to_dict()["RG"]}
    starts = {g["ID"]: instant(g["DT"]) for g in bam.header.to_dict()["RG"]}
    for read in bam:
        tags = {name: (value, kind) for name, value, kind in read.get_tags(with_value_type=True)}
        for name, (_, kind) in tags.items():
            kind = "i" if kind in "cCsSiI" else kind
            assert TYPES[name] == kind, f"{read.query_name}: {name} is of type {kind}"
        if read.is_supplementary or read.is_secondary:
            continue
        moves = list(read.get_tag("mv"))
        assert sum(moves[1:]) == read.query_length, f"{read.query_name}: moves"
        assert 0 <= read.get_tag("ns") - read.get_tag("ts") - moves[0] * (len(moves) - 1) < moves[0] or \
            0 <= moves[0] * (len(moves) - 1) - (read.get_tag("ns") - read.get_tag("ts")) < moves[0], f"{read.query_name}: frames"
        ns, ts, du = (read.get_tag(t) for t in ("ns", "ts", "du"))
        began = (instant(read.get_tag("st")) - starts[read.get_tag("RG")]).total_seconds()
        row = [read.get_tag("fn"), read.query_name, runs[read.get_tag("RG")], read.get_tag("ch"), read.get_tag("mx"), f"{began:.6f}",
               f"{du:.6f}", f"{began + du * ts / ns:.6f}", f"{du * (ns - ts) / ns:.6f}", read.query_length, f"{read.get_tag('qs'):.6f}",
               "-", read.get_tag("er") if read.has_tag("er") else "-", read.get_tag("po") if read.has_tag("po") else "-"]
        if read.is_unmapped:
            row += ["-"] * 16
        else:
            bases, _ = read.get_cigar_stats()
            inserted, deleted, same, different = bases[1], bases[2], bases[7], bases[8]
            assert read.get_tag("NM") == inserted + deleted + different
            start, end = read.query_alignment_start, read.query_alignment_end
            if read.is_reverse:
                start, end = read.query_length - end, read.query_length - start
            aligned = same + different
            row += [read.reference_name, read.reference_start, read.reference_end, start, end, "-" if read.is_reverse else "+",
                    aligned + inserted + deleted, aligned, same, inserted, deleted, different, read.mapping_quality,
                    f"{(end - start) / read.query_length:.6f}", f"{same / aligned:.6f}", f"{same / (aligned + inserted + deleted):.6f}"]
        row += [read.get_tag("pi") if read.has_tag("pi") else read.query_name, read.get_tag("st")]
        print("\t".join(str(v) for v in row))
