import numpy as np
import pytest

from basecall_train.network import STRIDE
from basecall_train.recombined import FLANK, RecombinedChunks
from basecall_train.store import _Chunks
from basecall_train.targets import UNKNOWN

K = 2 * FLANK + 1


def write(folder, reads):
    """Writes a source of reads, given as the classes that frames emit; a frame has the current of the base that it is in."""
    folder.mkdir()
    np.save(folder / "bases.npy", np.concatenate(reads))
    np.save(folder / "lengths.npy", np.array([STRIDE * len(read) for read in reads]))
    held = [read[np.maximum.accumulate(np.where((read > 0), np.arange(len(read)), 0))] for read in reads]
    np.save(folder / "signal.npy", np.repeat(np.concatenate(held), STRIDE).astype(np.float16))
    np.save(folder / "targets.npy", np.eye(256, 5, dtype=np.float16)[np.concatenate(reads)])
    return folder


def read_of(genome, rng):
    """Returns frames that emit a genome: each base in the first of one to four."""
    dwell = rng.integers(1, 5, len(genome))
    frames = np.zeros(dwell.sum(), np.uint8)
    frames[np.cumsum(dwell) - dwell] = genome
    return frames


@pytest.fixture
def genomes():
    rng = np.random.default_rng(1)
    return [rng.integers(1, 5, 20_000).astype(np.uint8) for _ in range(2)]


@pytest.fixture
def folders(tmp_path, genomes):
    rng = np.random.default_rng(2)
    return [
        write(tmp_path / str(n), [read_of(genome[first : first + 4000], rng) for first in range(0, 16_000, 2000)])
        for n, genome in enumerate(genomes)
    ]


def words(bases, size):
    return {bytes(bases[i : i + size]) for i in range(len(bases) - size + 1)}


@pytest.mark.parametrize("quicker", [1.0, 0.9, 1.3])
def test_the_current_is_that_of_the_bases(folders, quicker):
    chunks = RecombinedChunks(folders, 1800)
    rng = np.random.default_rng(3)
    for _ in range(20):
        signal, targets, bases = chunks.draw(rng, quicker)
        assert signal.shape == (1800,) and targets.shape == (600, 5) and bases.shape == (600,)
        assert quicker != 1 or (targets.argmax(1) == bases).all()
        held = bases[np.maximum.accumulate(np.where(bases > 0, np.arange(600), 0))]
        right = signal.reshape(-1, STRIDE)[:, 1] == held
        # A warp moves what frames emit by one now and then, to keep each base a frame of its own.
        assert right[np.argmax(bases > 0) :].mean() >= (1.0 if quicker == 1 else 0.7)


def test_sequences_are_new_but_their_words_are_not(folders, genomes):
    chunks = RecombinedChunks(folders, 1800)
    rng = np.random.default_rng(4)
    short = set().union(*(words(genome, K) for genome in genomes))
    long = set().union(*(words(genome, 80) for genome in genomes))
    new = 0
    for _ in range(20):
        _, _, bases = chunks.draw(rng)
        spelled = bases[bases > 0]
        assert words(spelled, K) <= short
        new += len(words(spelled, 80) - long)
    assert new > 1000


def test_a_run_ends_with_its_read_and_with_the_truth(tmp_path):
    rng = np.random.default_rng(5)
    reads = [read_of(rng.integers(1, 5, 400).astype(np.uint8), rng) for _ in range(6)]
    reads[2][100:140] = UNKNOWN
    chunks = RecombinedChunks([write(tmp_path / "source", reads)], 900)
    together = set().union(
        *(words(part[part > 0], K) for read in reads for part in np.split(read, np.flatnonzero(read == UNKNOWN)))
    )
    for _ in range(50):
        _, _, bases = chunks.draw(rng)
        assert bases.max() <= 4
        # Runs that end where no other base has the same words are followed by any: those few joints alone spell something new.
        assert len(words(bases[bases > 0], K) - together) <= 2 * K * (np.count_nonzero(bases) // 15)


def test_the_same_seed_draws_the_same(folders):
    one, other = (RecombinedChunks(folders, 1800).draw(np.random.default_rng(6), 1.1) for _ in range(2))
    assert all((a == b).all() for a, b in zip(one, other, strict=True))


def test_without_a_truth_there_are_no_pieces(tmp_path):
    folder = write(tmp_path / "teacher", [np.full(1000, UNKNOWN, np.uint8)])
    with pytest.raises(ValueError, match=r"teacher: no read has \d+ bases in a row whose truth is known"):
        RecombinedChunks([folder], 900)


def test_without_a_truth_what_is_heard_is_joined(tmp_path):
    rng = np.random.default_rng(9)
    read = read_of(rng.integers(1, 5, 3000).astype(np.uint8), rng)
    folder = write(tmp_path / "heard", [read])
    np.save(folder / "bases.npy", np.full(len(read), UNKNOWN, np.uint8))
    chunks = RecombinedChunks([folder], 900)
    for quicker in (1.0, 1.2):
        signal, targets, bases = chunks.draw(rng, quicker)
        assert (bases == UNKNOWN).all(), "a teacher has to hear it"
        assert targets.argmax(1).max() > 0 and signal.max() <= 4
    spelled = chunks.draw(rng)[1].argmax(1).astype(np.uint8)
    assert words(spelled[spelled > 0], K) <= words(_spelled(read), K)


def _spelled(read):
    """The bases of a read but for the second of two equal ones in neighbouring frames, which targets can't distinguish."""
    again = np.concatenate([[False], (read[1:] == read[:-1])])
    return read[(read > 0) & ~again]


def test_rare_words_can_be_preferred(tmp_path):
    rng = np.random.default_rng(10)
    # One base in fifty is a T.
    reads = [read_of(rng.choice(np.arange(1, 5, dtype=np.uint8), 3000, p=[0.33, 0.33, 0.32, 0.02]), rng) for _ in range(4)]
    folder = write(tmp_path / "source", reads)

    def rare(balance):
        chunks = RecombinedChunks([folder], 1800, balance)
        drawn = np.concatenate([chunks.draw(np.random.default_rng(n))[2] for n in range(50)])
        return (drawn == 4).sum() / (drawn > 0).sum()

    assert rare(0) == pytest.approx(0.02, abs=0.005)
    assert rare(1) > 1.2 * rare(0) and rare(4) > 2 * rare(0)


def test_chunks_have_as_much_truth_as_is_asked_for(tmp_path):
    rng = np.random.default_rng(7)
    read = read_of(rng.integers(1, 5, 4000).astype(np.uint8), rng)
    read[: len(read) // 2] = UNKNOWN
    folder = write(tmp_path / "half", [read])
    some, most = _Chunks(folder, 900), _Chunks(folder, 900, known=0.98)
    assert min((some.draw(rng)[2] != UNKNOWN).mean() for _ in range(50)) < 0.98
    assert min((most.draw(rng)[2] != UNKNOWN).mean() for _ in range(50)) >= 0.98
    read[:] = UNKNOWN
    with pytest.raises(ValueError, match=r"none: .* of none is the truth known for 98 %"):
        _Chunks(write(tmp_path / "none", [read]), 900, known=0.98).draw(rng)


def test_pieces_are_those_of_one_read(tmp_path):
    rng = np.random.default_rng(8)
    reads = [read_of(rng.integers(1, 5, 3000).astype(np.uint8), rng) for _ in range(5)]
    folder = write(tmp_path / "source", reads)
    # The current says which read it is.
    np.save(folder / "signal.npy", np.repeat(np.arange(5), [STRIDE * len(read) for read in reads]).astype(np.float16))
    chunks = RecombinedChunks([folder, folder], 1800)
    drawn = [set(chunks.draw(rng)[0]) for _ in range(40)]
    assert all(len(one) == 1 for one in drawn) and len(set.union(*drawn)) == 5
