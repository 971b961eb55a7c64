"""Drawing against all paths, one by one, and a small network that learns what a larger one says."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_crf import paths
from test_training import CRF, trainer, weights

from basecall_train import export
from basecall_train.card import _neighbours, _origin
from basecall_train.crf import StateSpace
from basecall_train.devices import Workers
from basecall_train.distillation import Mentors
from basecall_train.manifest import Manifest
from basecall_train.network import Basecaller, Shape
from basecall_train.recipe import Recipe

CPU = torch.device("cpu")
MENTOR = Shape(width=16, layers=2, stem=4, stride=5, state_length=2)


@pytest.mark.parametrize("k, stay", [(1, 1.0), (2, 0.3)])
def test_paths_are_drawn_as_often_as_they_are_likely(k, stay):
    space, frames, draws = StateSpace(k, stay), 3, 20_000
    scores = np.random.default_rng(k).normal(size=(frames, space.scores)).astype(np.float32)
    chances: Counter = Counter()
    for _, emitted, weight in paths(space, scores):
        chances[emitted] += np.exp(weight)
    whole = sum(chances.values())
    rng = np.random.default_rng(1)
    drawn = Counter(tuple(int(c) - 1 for c in space.draw(scores, rng) if c) for _ in range(draws))
    for emitted, weight in chances.items():
        p = weight / whole
        assert drawn[emitted] == pytest.approx(draws * p, abs=5 * np.sqrt(draws * p * (1 - p)) + 1)


def test_a_path_without_doubt_is_what_is_drawn():
    space = StateSpace(2, 2.0)
    scores = np.full((6, 1, space.scores), -30, np.float32)
    moves = space.moves(torch.tensor([[0, 1]]), torch.tensor([[2, 3, 3]]))[0]
    scores[[1, 2, 5], 0, moves] = 30
    assert space.draw(scores[:, 0], np.random.default_rng(0)).tolist() == [0, 3, 4, 0, 0, 4]


class Says(torch.nn.Module):
    """Gives the same scores [T, N, C] for any signal."""

    def __init__(self, shape: Shape, scores: torch.Tensor) -> None:
        super().__init__()
        self.shape, self.scores = shape, scores

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        return self.scores


def test_what_mentors_say_together_is_told_in_frames_of_targets():
    space = StateSpace(2)
    moves = space.moves(torch.tensor([[0, 1], [2, 2]]), torch.tensor([[2, 3], [0, 1]]))
    sure, unsure = torch.full((2, 6, 2, space.scores), -40.0)
    for n, frames in enumerate([(1, 4), (0, 5)]):
        sure[list(frames), n, moves[n]] = 40.0
    unsure[:] = 0
    mentors = Mentors([Says(MENTOR, sure), Says(MENTOR, unsure)], [CPU])
    said = mentors.say(torch.zeros(2, 1, 30), np.ones((2, 2)), torch.float32, np.random.default_rng(0))
    # Frames of 5 samples begin in frames 0, 1, 3, 5, 6 and 8 of three.
    assert said.tolist() == [[0, 3, 0, 0, 0, 0, 4, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0, 2, 0]]


@pytest.mark.parametrize(
    "shapes, message",
    [
        ([Shape(width=16, layers=2, stem=4)], "can't be heard together"),
        ([MENTOR, CRF], "can't be heard together"),
        ([Shape(width=16, layers=2, stem=4, stride=2, state_length=2)], "more bases than targets have frames"),
    ],
)
def test_networks_that_are_no_mentors_are_refused(shapes, message):
    with pytest.raises(ValueError, match=message):
        Mentors([Basecaller(shape) for shape in shapes], [CPU])


@pytest.fixture
def mentor(tmp_path):
    torch.manual_seed(9)
    export.write(Basecaller(MENTOR).eval(), tmp_path / "mentor.onnx")
    return str(tmp_path / "mentor.onnx")


def test_a_network_comes_to_say_what_its_mentor_says(prepared, tmp_path):
    torch.manual_seed(9)
    network = Basecaller(MENTOR).eval()
    with torch.no_grad():  # AC AC AC …: what no truth would teach it
        network.head.weight.zero_()
        network.head.bias.fill_(-1)
        for to, dropped in ((1, 1), (4, 0)):
            network.head.bias[4 * to + dropped] = 1
    export.write(network, tmp_path / "mentor.onnx")
    t = trainer(prepared, shape=CRF, steps=40, mentors=(str(tmp_path / "mentor.onnx"),), mentored=1.0)
    steps = [t.advance(t._sampler.batch(step)) for step in range(40)]
    assert steps[-1].surprise < 0.5 * steps[0].surprise
    with torch.no_grad():
        called = StateSpace(2).call(t.network(t._sampler.batch(40).signal)[:, 0].numpy())
    assert set(called[2:]) == {0, 1}


def test_a_share_of_the_chunks_is_heard_and_the_others_keep_their_truth(prepared, mentor):
    t = trainer(prepared, shape=CRF, steps=8, mentors=(mentor,), mentored=0.5)
    heard, rng = t._heard(slice(0, 400))
    assert 160 < heard.sum() < 240
    again, same = t._heard(slice(0, 400))
    assert np.array_equal(heard, again) and rng.random() == same.random()
    assert not np.array_equal(heard, t._heard(slice(400, 800))[0])
    assert not trainer(prepared, shape=CRF, steps=8)._heard(slice(0, 400))[0].any()

    batch = t._sampler.batch(0)
    piece = slice(0, len(batch.signal))
    heard = t._heard(piece)[0]
    assert 0 < heard.sum() < len(heard)
    scores = t.network(batch.signal).detach()

    def lost(bases):
        return float(t._path_loss(scores, batch.signal, replace(batch, bases=bases), piece)[0])

    wrong = batch.bases.copy()
    wrong[heard] = 0
    assert lost(wrong) == lost(batch.bases)
    wrong[np.flatnonzero(~heard)[0]] = 1
    assert lost(wrong) != lost(batch.bases)


def every_path(space, scores):
    """The logarithms of the probabilities of all paths, in one order."""
    found = torch.tensor([weight for *_, weight in paths(space, scores)], dtype=torch.float64)
    return found.log_softmax(0)


@pytest.mark.parametrize("k, stay", [(1, 1.0), (2, 0.3)])
def test_the_divergence_is_that_of_all_paths(k, stay):
    space = StateSpace(k, stay)
    random = torch.Generator().manual_seed(k)
    scores, told = (torch.randn(3, 2, space.scores, generator=random) for _ in range(2))
    scores.requires_grad_(True)
    found = space.divergence(scores, told)
    for n in range(2):
        mine, its = (every_path(space, one[:, n].detach().numpy()) for one in (scores, told))
        assert found[n].item() == pytest.approx(float((its.exp() * (its - mine)).sum()), abs=1e-5)
    found[1].backward()

    def between(one):
        """It falls by what a step along the gradient says."""
        return space.divergence(one, told)[1].item()

    step = 0.01 * torch.randn(scores.shape, generator=random)
    with torch.no_grad():
        expected = float((scores.grad * step).sum())
        assert between(scores + step / 2) - between(scores - step / 2) == pytest.approx(expected, rel=0.01, abs=2e-6)
    assert not scores.grad[:, 0].any()
    assert space.divergence(told, told).abs().max() < 1e-5


def test_a_network_with_the_paths_of_its_mentors_learns_what_they_say_together(prepared, tmp_path):
    files = []
    for seed in (9, 10):
        torch.manual_seed(seed)
        network = Basecaller(CRF).eval()
        with torch.no_grad():
            network.head.weight.mul_(4)
        files.append(tmp_path / f"{seed}.onnx")
        export.write(network, files[-1])
    t = trainer(prepared, shape=CRF, steps=60, mentors=tuple(map(str, files)), mentored=1.0)
    steps = [t.advance(t._sampler.batch(step)) for step in range(60)]
    assert steps[-1].divergence < 0.3 * steps[0].divergence and not any(step.surprise for step in steps)


@pytest.mark.parametrize("shape", [MENTOR, CRF])
def test_a_resumed_run_hears_its_mentor_say_the_same(prepared, tmp_path, shape):
    torch.manual_seed(9)
    export.write(Basecaller(shape).eval(), tmp_path / "mentor.onnx")

    def begun():
        return trainer(prepared, shape=CRF, steps=6, mentors=(str(tmp_path / "mentor.onnx"),), mentored=0.5)

    whole, broken, resumed = begun(), begun(), begun()
    whole.run(tmp_path / "whole.pt")
    broken.run(tmp_path / "broken.pt", stopped=lambda: broken.step == 3)
    resumed.load(tmp_path / "broken.pt")
    resumed.run(tmp_path / "broken.pt")
    assert torch.equal(weights(resumed.network), weights(whole.network))


def test_the_card_names_mentors(world, tmp_path):
    text = world.recipe.read_text().replace("stem = 4", "stem = 4\nstride = 6\nstate_length = 2")
    text = text.replace("steps = 150", 'steps = 150\nmentors = ["models/large/model.onnx", "older.onnx"]\nmentored = 0.25')
    (tmp_path / "r.toml").write_text(text)
    recipe = Recipe.load(tmp_path / "r.toml")
    assert recipe.training.mentors == (str(tmp_path / "models/large/model.onnx"), str(tmp_path / "older.onnx"))
    card = _origin(recipe)
    assert "| mentor, for 25 % of the chunks | the scores of large for them | see there |" in card
    assert "the scores of older for them" in card and "mentor" not in _origin(Recipe.load(world.recipe))


def test_the_card_tells_that_neighbours_count():
    plain = Manifest("m", "1", "", "r9.4", (4000,), 6, 900, 120)
    assert _neighbours(plain) == ""
    told = _neighbours(replace(plain, quality_neighbours=5, quality_neighbour_share=0.5))
    assert told == " (the mean of 5 bases on either side counts 50 % of it)"


def test_mentors_are_where_the_network_is():
    network = Basecaller(MENTOR)
    workers = Workers(network, [CPU], 1)
    mentors = Mentors([network], workers.devices)
    heard = mentors.say(torch.zeros(1, 1, 60), np.ones((1, 1)), torch.float32, np.random.default_rng(0))
    assert heard.shape == (1, 20) and all(p.requires_grad for p in network.parameters())
