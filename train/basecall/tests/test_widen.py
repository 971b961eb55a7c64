from dataclasses import replace

import pytest
import torch

from basecall_train import export
from basecall_train.network import Basecaller, Shape
from basecall_train.store import Sampler
from basecall_train.training import Trainer
from basecall_train.widen import widened

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
    with pytest.raises(ValueError, match="can't start from"):  # whose loss it can't tell
        t.begin(Basecaller(replace(recipe.shape, width=recipe.shape.width + 2, stride=2 * recipe.shape.stride)))
