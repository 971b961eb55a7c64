"""Batches must not depend on who makes them."""

from itertools import islice

import pytest
import torch

from basecall_train.loading import Loader
from basecall_train.store import Sampler


@pytest.mark.parametrize("processes", [0, 1, 3])
def test_batches_are_those_of_their_steps(prepared, processes):
    sampler = Sampler(*prepared)
    loader = Loader(sampler, processes)
    batches = loader.batches(5)
    for step, batch in enumerate(islice(batches, 8), 5):
        expected = sampler.batch(step)
        assert torch.equal(batch.signal, expected.signal) and torch.equal(batch.targets, expected.targets)
        assert (batch.bases == expected.bases).all()
    batches.close()
    loader.close()


def test_a_fault_is_told(prepared, monkeypatch):
    def fails(self, step):
        raise ValueError(f"step {step} can't be made")

    monkeypatch.setattr(Sampler, "batch", fails)
    loader = Loader(Sampler(*prepared), 2)
    with pytest.raises(ValueError, match="step 3 can't be made"):
        next(loader.batches(3))
    loader.close()
