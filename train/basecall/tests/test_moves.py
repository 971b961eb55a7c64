import gzip
import struct
from dataclasses import replace

import numpy as np
import pysam
import pytest

from basecall_train.evaluation import evaluate_calls
from basecall_train.moves import Region, contigs_of, emitted, read_alignments
from basecall_train.recipe import Evaluation, Recipe, Source
from basecall_train.signal import normalise, read_recording
from basecall_train.store import Sampler, prepare
from basecall_train.targets import UNKNOWN
from basecall_train.watched import watched

BLOCK = 3


def tag(name, kind, value):
    head = name.encode() + kind.encode()
    if kind == "Z":
        return head + value.encode() + b"\0"
    if kind == "B":
        return head + b"c" + struct.pack("<i", len(value)) + np.asarray(value, np.int8).tobytes()
    return head + struct.pack("<i", value)


def record(name, begin, flags, bases, cigar, tags):
    codes = ["=ACMGRSVTWYHKDBN".index(base) for base in bases]
    codes += [0] * (len(codes) % 2)
    packed = bytes(a << 4 | b for a, b in zip(codes[::2], codes[1::2], strict=True))
    ops = b"".join(struct.pack("<I", n << 4 | "MIDNSHP=X".index(kind)) for n, kind in cigar)
    body = struct.pack("<iiBBHHHiiii", 0, begin, len(name) + 1, 60, 0, len(cigar), flags, len(bases), -1, -1, 0)
    body += name.encode() + b"\0" + ops + packed + b"\xff" * len(bases) + tags
    return struct.pack("<i", len(body)) + body


def write_bam(path, *records):
    contig = b"chr1\0"
    head = (
        b"BAM\1" + struct.pack("<i", 0) + struct.pack("<i", 1) + struct.pack("<i", len(contig)) + contig + struct.pack("<i", 10_000)
    )
    return write_blocks(path, head + b"".join(records))


def write_blocks(path, content):
    with pysam.BGZFile(str(path), "wb") as out:
        out.write(content)
    return path


def moves_at(blocks, size):
    came = np.zeros(size, int)
    came[list(blocks)] = 1
    return [BLOCK, *came]


def tags(md, blocks, size, trimmed=0):
    return tag("MD", "Z", md) + tag("mv", "B", moves_at(blocks, size)) + tag("ts", "i", trimmed)


def test_truth_is_the_references_and_comes_when_the_moves_say(tmp_path):
    # AC|GT-A|C called as (T)AC|TTGA|C: clipped T, G read as T, an inserted G, and the reference's C before the last left out.
    bases = "TACTTGAC"
    path = write_bam(
        tmp_path / "a.bam",
        record(
            "a", 100, 0, bases, [(1, "S"), (4, "M"), (1, "I"), (1, "M"), (1, "D"), (1, "M")], tags("2G2^C1", range(0, 16, 2), 16, 7)
        ),
        record("no moves", 100, 0, "ACGT", [(4, "M")], tag("MD", "Z", "4")),
        record("secondary", 100, 256, "ACGT", [(4, "M")], tags("4", range(4), 4)),
        record("unmapped", -1, 4, "ACGT", [], tags("4", range(4), 4)),
    )
    (one,) = read_alignments(path)
    classes, when, where = one.truth()
    assert [" ACGT"[c] for c in classes] == list("ACGTACC")
    assert where.tolist() == list(range(100, 107))
    begin = [7 + 6 * i for i in (1, 2, 3, 4, 6)]
    assert when.tolist() == [*begin, (begin[-1] + 7 + 6 * 7) / 2, 7 + 6 * 7]
    frames = emitted(one, 90)
    assert frames.size == 30 and (frames[:4] == UNKNOWN).all() and (frames[18:] == UNKNOWN).all()
    assert [" ACGT"[c] for c in frames[(frames > 0) & (frames != UNKNOWN)]] == list("ACGTACC")
    assert frames[13 // 3] == 1 and frames[19 // 3] == 2 and frames[25 // 3] == 3
    inside = emitted(one, 90, Region.parse("chr1:102-104"))
    assert [" ACGT"[c] for c in inside[(inside > 0) & (inside != UNKNOWN)]] == list("CGT")
    assert (emitted(one, 90, Region.parse("chr2:102-104")) == UNKNOWN).all()
    assert contigs_of(path) == {"chr1": "ACGTACC"}
    assert contigs_of(path, Region.parse("chr1:103-200")) == {"chr1": "GTACC"}
    with pytest.raises(ValueError, match="no alignment with MD and mv in chr1:1-50"):
        contigs_of(path, Region.parse("chr1:1-50"))


def test_the_other_strand_is_read_backwards(tmp_path):
    forward = record("f", 10, 0, "AACGT", [(5, "M")], tags("5", range(0, 10, 2), 10))
    backward = record("r", 10, 16, "AACGT", [(5, "M")], tags("5", range(0, 10, 2), 10))
    f, r = read_alignments(write_bam(tmp_path / "b.bam", forward, backward))
    assert [" ACGT"[c] for c in f.truth()[0]] == list("AACGT")
    classes, when, where = r.truth()
    assert [" ACGT"[c] for c in classes] == list("ACGTT")
    assert when.tolist() == f.truth()[1].tolist() and where.tolist() == [14, 13, 12, 11, 10]


def test_beside_a_long_gap_nothing_is_known(tmp_path):
    bases = "ACGT" * 15
    one = record("a", 0, 0, bases, [(30, "M"), (5, "D"), (30, "M")], tags("30^GGGGG30", range(60), 60))
    two = record("b", 0, 0, bases, [(30, "M"), (4, "I"), (26, "M")], tags("56", range(60), 60))
    found = [read.truth()[0] for read in read_alignments(write_bam(tmp_path / "c.bam", one, two))]
    assert np.flatnonzero(found[0] == UNKNOWN).tolist() == list(range(20, 45))
    assert np.flatnonzero(found[1] == UNKNOWN).tolist() == list(range(20, 40))
    assert (emitted(next(read_alignments(tmp_path / "c.bam")), 180) == UNKNOWN).any()


@pytest.mark.parametrize(
    "md, blocks, message",
    [("3", range(4), "MD is of 3 bases, the alignment of 4"), ("4", range(3), "4 bases and 3 moves")],
)
def test_alignments_that_contradict_themselves_are_named(tmp_path, md, blocks, message):
    path = write_bam(tmp_path / "d.bam", record("odd", 0, 0, "ACGT", [(4, "M")], tags(md, blocks, 4)))
    with pytest.raises(ValueError, match=f"odd.*{message}"):
        next(read_alignments(path)).truth()


def test_broken_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.bam"):
        next(read_alignments(tmp_path / "none.bam"))
    (tmp_path / "text.bam").write_bytes(gzip.compress(b"no such thing"))
    with pytest.raises(ValueError, match="text.bam: not a BAM"):
        next(read_alignments(tmp_path / "text.bam"))
    path = write_bam(tmp_path / "cut.bam", record("a", 0, 0, "ACGT", [(4, "M")], tags("4", range(4), 4)))
    write_blocks(path, gzip.decompress(path.read_bytes())[:-9])
    with pytest.raises(ValueError, match="cut.bam"):
        list(read_alignments(path))


RECIPE = """
[model]
name = "by-moves"
version = "1"
description = "d"
chemistry = "c"
sample_rates = [4000]
window = 360
overlap = 36

[network]
width = 16
layers = 2
stem = 4
stride = 6
state_length = 2

[training]
steps = 4
batch = 4
parts = 2
chunk = 360

[[source]]
name = "labelled"
recordings = "reads.blow5"
moves = "labels.bam"
without = ["{held}"]
known = 1.0
share = 1.0

[[evaluation]]
name = "held out"
recordings = "reads.blow5"
moves = "labels.bam"
reads = ["{held}"]
watched = 1
"""


@pytest.fixture
def labelled(world, tmp_path):
    """A recipe without a teacher, whose reads have their truth in a BAM."""
    records = []
    for i, (name, sequence) in enumerate(sorted(world.reads.items())):
        blocks = range(0, 3 * len(sequence), 3)  # nine samples a base, three a block
        records.append(
            record(name, 1000 * i, 0, sequence, [(len(sequence), "M")], tags(str(len(sequence)), blocks, 3 * len(sequence)))
        )
    write_bam(tmp_path / "labels.bam", *records)
    (tmp_path / "reads.blow5").symlink_to(world.folder / "reads.blow5")
    held = sorted(world.reads)[0]
    (tmp_path / "recipe.toml").write_text(RECIPE.format(held=held))
    return Recipe.load(tmp_path / "recipe.toml"), tmp_path, held


def test_reads_are_learned_from_without_a_teacher(labelled, world):
    recipe, data, held = labelled
    assert recipe.teacher is None
    prepare(recipe, data, data / "store")
    prepare(recipe, data, data / "store")  # keeps what is there
    lengths = np.load(data / "store/labelled/lengths.npy")
    kept = [read.id for read in read_recording(data / "reads.blow5") if read.id != held]
    assert len(lengths) == len(kept) > 3
    bases = np.load(data / "store/labelled/bases.npy")
    spelled = "".join("ACGT"[base - 1] for base in bases[(bases > 0) & (bases != UNKNOWN)])
    assert spelled == "".join(world.reads[name] for name in kept)
    batch = Sampler(recipe, data / "store").batch(0)
    assert batch.signal.shape == (4, 1, 360) and (batch.bases <= 4).all() and ((batch.bases > 0).sum(1) > 30).all()
    (one,) = watched(recipe, data / "store")
    raw = next(read.raw for read in read_recording(data / "reads.blow5") if read.id == held)
    signal = normalise(raw, recipe.manifest.clip).astype(np.float16).astype(np.float32)
    assert one.signal.shape == (1, 360) and any(
        (signal[n : n + 360] == one.signal[0]).all() for n in range(0, len(signal) - 360, 3)
    )


def test_the_engine_is_judged_by_them(labelled, world):
    recipe, data, held = labelled

    class Right:
        seconds = 0.0

        def calls(self, recording, reads):
            from basecall_train.calling import Call

            self.seconds = 1.0
            assert tuple(reads) == (held,)
            yield Call(world.reads[held], np.empty(0, np.int64), np.full(len(world.reads[held]), 0.9))

    result = evaluate_calls(Right(), recipe.evaluations[0], data)
    assert result.identities == [1.0] and result.samples == 9 * len(world.reads[held])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"within": "chr1"}, "no region"),
        ({"within": "chr1:9-3"}, "no region"),
        ({"moves": "", "within": "chr1:1-9", "known": 0.0, "without": ()}, "there is none"),
        ({"moves": "", "known": 0.0}, "without leaves reads out"),
        ({"reference": "a.fa"}, "a truth is one of"),
        ({"eased": 0.5}, "eased is a part"),
        ({"genomes": ("a.fa",)}, "there is none"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(labelled, change, message):
    with pytest.raises(ValueError, match=message):
        replace(labelled[0].sources[0], **change)


def test_what_needs_a_teacher_says_so(labelled):
    with pytest.raises(ValueError, match="one of reference and moves"):
        Evaluation("e", "r.blow5")
    _, data, _ = labelled
    text = (data / "recipe.toml").read_text()
    (data / "recipe.toml").write_text(text + '[[source]]\nname = "unlabelled"\nrecordings = "reads.blow5"\nshare = 1.0\n')
    with pytest.raises(ValueError, match=r"no \[teacher\], which unlabelled needs"):
        Recipe.load(data / "recipe.toml")
    assert not Source("pore", 1.0, pore_model="x.profile").needs_teacher
