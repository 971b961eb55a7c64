from dataclasses import replace

import pytest
import torch

from basecall_train.narrow import narrowed, worth
from basecall_train.network import Basecaller, Shape
from basecall_train.store import Sampler
from basecall_train.training import Trainer

SIGNAL = torch.randn(4, 1, 150, generator=torch.Generator().manual_seed(0))
ALIVE = [0, 2, 3, 5, 8, 9, 11]


def loss(network: Basecaller, _: int = 0) -> torch.Tensor:
    return network(SIGNAL).square().sum()


def silence(network: Basecaller, channel: int) -> None:
    """Makes a channel zero everywhere: silu(0) = 0, and a cell that is only ever given tanh(0) stays 0."""
    width = network.shape.width
    with torch.no_grad():
        network.down.weight[channel] = 0
        network.down.bias[channel] = 0
        for layer in network.lstm:
            for parameter in layer.parameters():
                parameter[2 * width + channel] = 0


@pytest.fixture
def network() -> Basecaller:
    torch.manual_seed(3)
    network = Basecaller(Shape(width=12, layers=3, stem=4)).eval()
    for channel in set(range(12)) - set(ALIVE):
        silence(network, channel)
    return network


def test_channels_that_say_nothing_go_first(network):
    narrow = narrowed(network, len(ALIVE), loss)
    assert narrow.shape == Shape(width=len(ALIVE), layers=3, stem=4)
    assert torch.equal(narrow.down.weight, network.down.weight[ALIVE])
    with torch.no_grad():
        torch.testing.assert_close(narrow(SIGNAL), network(SIGNAL), atol=1e-5, rtol=0)


def test_worth_is_the_change_of_the_loss_to_first_order(network):
    """Held to the loss of networks whose channel is a little weaker, chunk by chunk."""
    step = 1e-3

    def weaker(channel: int, factor: float) -> torch.Tensor:
        keep = [part.register_forward_hook(scaled(channel, factor)) for part in (network.down, *network.lstm)]
        with torch.no_grad():
            losses = network(SIGNAL).double().square().sum((0, 2))
        for hook in keep:
            hook.remove()
        return losses

    def scaled(channel: int, factor: float):
        def hook(part, _, output):
            tensor = (output[0] if isinstance(part, torch.nn.LSTM) else output).clone()
            tensor[(slice(None), slice(None), channel) if isinstance(part, torch.nn.LSTM) else (slice(None), channel)] *= factor
            return (tensor, output[1]) if isinstance(part, torch.nn.LSTM) else tensor

        return hook

    expected = [((weaker(c, 1 + step) - weaker(c, 1 - step)) / (2 * step)).square().mean() for c in range(12)]
    torch.testing.assert_close(worth(network, loss).double(), torch.stack(expected), rtol=0.02, atol=1e-6)


def test_a_network_is_not_widened(network):
    with pytest.raises(ValueError, match="no 13 channels"):
        narrowed(network, 13, loss)


def test_training_begins_with_channels_of_a_wider_network(prepared):
    recipe, store = prepared
    t = Trainer(recipe, Sampler(recipe, store))
    wide = Basecaller(replace(recipe.shape, width=recipe.shape.width + 3))
    t.begin(wide)
    assert t.network.shape == recipe.shape
    rows = {tuple(row) for row in wide.down.weight.flatten(1).tolist()}
    assert all(tuple(row) in rows for row in t.average.down.weight.flatten(1).tolist())
    before = [parameter.clone() for parameter in wide.parameters()]
    t.advance(Sampler(recipe, store).batch(0))
    assert all(torch.equal(a, b) for a, b in zip(before, wide.parameters(), strict=True))
