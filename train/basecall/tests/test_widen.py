import math
from dataclasses import replace

import pytest
import torch

from basecall_train import export
from basecall_train.crf import StateSpace
from basecall_train.network import Basecaller, Shape
from basecall_train.store import Sampler
from basecall_train.training import Trainer
from basecall_train.widen import lengthened, widened

SIGNAL = torch.randn(2, 1, 150, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def network() -> Basecaller:
    torch.manual_seed(3)
    return Basecaller(Shape(width=12, layers=3, stem=4)).eval()


@pytest.mark.parametrize("width", [12, 13, 20, 24, 40])
def test_a_wider_network_computes_the_same(network, width):
    wide = widened(network, width, seed=1)
    assert wide.shape == Shape(width=width, layers=3, stem=4)
    with torch.no_grad():
        torch.testing.assert_close(wide(SIGNAL), network(SIGNAL), atol=1e-4, rtol=0)


def test_copies_of_a_channel_are_read_by_different_weights(network):
    wide = widened(network, 24, seed=1)
    kernels = wide.down.weight.flatten(1)
    alike = (kernels[:, None] == kernels[None]).all(-1).fill_diagonal_(False)
    first, second = alike.nonzero()[0]
    assert not torch.allclose(wide.head.weight[:, first], wide.head.weight[:, second])


@pytest.mark.parametrize(("few", "many"), [(1, 2), (2, 3), (1, 3)])
def test_longer_states_give_sequences_the_same_probabilities(few, many):
    torch.manual_seed(5)
    short = Basecaller(Shape(width=12, layers=2, stem=4, state_length=few)).eval()
    long = lengthened(short, many)
    assert long.shape == replace(short.shape, state_length=many)
    spelled = torch.randint(0, 4, (2, 17), generator=torch.Generator().manual_seed(2))
    lengths = torch.tensor([17, 11])
    before = torch.tensor([[3, 0, 2], [1, 1, 0]])
    with torch.no_grad():
        # All words are as likely to begin with, and the loss has that part of it that these began.
        of = [
            StateSpace(k).loss(network(SIGNAL), before[:, -k:], spelled, lengths) - k * math.log(4)
            for k, network in ((few, short), (many, long))
        ]
    torch.testing.assert_close(of[1], of[0], atol=1e-4, rtol=1e-5)


def test_no_states_are_shortened():
    with pytest.raises(ValueError, match="states of 3 bases can't get states of 2"):
        lengthened(Basecaller(Shape(width=12, layers=2, stem=4, state_length=3)), 2)
    without = Basecaller(Shape(width=12, layers=2, stem=4))
    assert lengthened(without, 2) is without


def test_no_network_is_narrowed(network):
    with pytest.raises(ValueError, match="narrowed to 8"):
        widened(network, 8)


def test_an_exported_network_is_read_again(network, tmp_path):
    export.write(network, tmp_path / "m.onnx")
    again = export.read(tmp_path / "m.onnx")
    assert all(torch.equal(a, b) for a, b in zip(again.state_dict().values(), network.state_dict().values(), strict=True))


def test_training_begins_with_what_a_narrower_network_knows(prepared):
    recipe, store = prepared
    t = Trainer(recipe, Sampler(recipe, store))
    narrow = Basecaller(replace(recipe.shape, width=recipe.shape.width - 2)).eval()
    t.begin(narrow)
    with torch.no_grad():
        torch.testing.assert_close(t.average.eval()(SIGNAL), narrow(SIGNAL), atol=1e-4, rtol=0)
    assert t.step == 0
    with pytest.raises(ValueError, match="can't start from"):
        t.begin(Basecaller(replace(recipe.shape, layers=recipe.shape.layers + 1)))
    with pytest.raises(ValueError, match="can't start from"):  # whose loss it can't determine
        t.begin(Basecaller(replace(recipe.shape, width=recipe.shape.width + 2, stride=2 * recipe.shape.stride)))
