import copy
import math
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch

from basecall_train import export, progress
from basecall_train.__main__ import main
from basecall_train.calling import Model
from basecall_train.card import _origin
from basecall_train.devices import chosen
from basecall_train.manifest import Manifest
from basecall_train.network import Basecaller, Excess, Shape, favour_blank, mixture
from basecall_train.optimiser import orthogonalise
from basecall_train.recipe import Augmentation, Recipe, Training
from basecall_train.store import TEACHER, Sampler, augment, joined, prepare, spelled
from basecall_train.targets import UNKNOWN
from basecall_train.training import CPU, Trainer, _inconsistency, distance, learning_rate, load_average, spelling

CRF = Shape(width=16, layers=2, stem=4, stride=6, state_length=2)


def trainer(prepared, devices=(CPU,), shape: Shape | None = None, **changes) -> Trainer:
    recipe, store = prepared
    recipe = replace(recipe, training=replace(recipe.training, **changes), shape=shape or recipe.shape)
    return Trainer(recipe, Sampler(recipe, store), devices)


def weights(network: Basecaller) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def test_the_loss_falls(prepared, tmp_path):
    t = trainer(prepared, steps=40)
    steps = [t.advance(t._sampler.batch(step)) for step in range(40)]
    assert steps[-1].divergence < 0.5 * steps[0].divergence
    with_ctc = [step.surprise for step in steps if step.surprise]
    assert len(with_ctc) == 28 and with_ctc[-1] < with_ctc[0]


def test_a_gradient_that_is_no_number_leaves_the_weights_alone(prepared):
    t = trainer(prepared, steps=4)
    t.advance(t._sampler.batch(0))
    before, average = weights(t.network), weights(t.average)
    batch = t._sampler.batch(1)
    batch.signal[0, 0, 100] = float("nan")
    assert not math.isfinite(t.advance(batch).gradient)
    assert torch.equal(weights(t.network), before) and t.step == 2
    t.advance(t._sampler.batch(2))
    assert torch.isfinite(weights(t.network)).all() and torch.isfinite(weights(t.average)).all()
    assert not torch.equal(weights(t.network), before) and not torch.equal(weights(t.average), average)


def test_excess_is_what_the_forget_gates_take_in_above_the_most():
    torch.manual_seed(5)
    layer, seen, memory, stride = torch.nn.LSTM(6, 6), torch.randn(30, 8, 6), 12.0, 6
    torch.nn.init.constant_(layer.bias_ih_l0, 0.5)
    excess = Excess(memory, stride)
    assert 1 / (1 + math.exp(-excess.most)) == pytest.approx(math.exp(-stride / memory))
    expected = torch.zeros(6)
    with torch.no_grad():
        excess.add(layer, seen, layer(seen)[0])
        for item in range(0, 8, Excess.every):
            h, c = torch.zeros(6), torch.zeros(6)
            for x in seen[:, item]:
                z = layer.weight_ih_l0 @ x + layer.bias_ih_l0 + layer.weight_hh_l0 @ h + layer.bias_hh_l0
                i, f, g, o = z.view(4, 6)
                expected += (f - excess.most).clamp(min=0) ** 2 / (30 * 2)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
    assert expected.sum() > 0.01
    assert float(excess.total) == pytest.approx(float(expected.sum()), rel=1e-4)


def test_a_limit_on_memory_is_learned(prepared):
    excess = {}
    for memory in (0, 4):
        t = trainer(prepared, steps=40, memory=memory)
        steps = [t.advance(t._sampler.batch(step)) for step in range(40)]
        assert (steps[-1].excess > 0) == (memory > 0)
        remembered = Excess(4, t.network.shape.stride)
        with torch.no_grad():
            t.network(t._sampler.batch(40).signal, remembered)
        excess[memory] = float(remembered.total)
        assert steps[-1].divergence < 0.6 * steps[0].divergence
    assert excess[4] < 0.5 * excess[0]


@pytest.mark.parametrize("stride", [3, 6])
def test_inconsistency_is_what_a_window_changes(stride):
    torch.manual_seed(6)
    network, signal, margin = Basecaller(Shape(width=8, layers=2, stem=4, stride=stride)), torch.randn(3, 1, 600), 60
    with torch.no_grad():
        scores = network(signal).log_softmax(-1)
        window = network(signal[::2, :, margin : 600 - margin]).log_softmax(-1)
        found = float(_inconsistency(network, signal, None, network(signal), margin))
        total, frames = 0.0, 0
        for frame in range(2 * margin // 3, (600 - 2 * margin) // 3):
            for chunk, row in ((0, 0), (2, 1)):
                p, q = scores[frame, chunk], window[frame - margin // 3, row]
                total += float((p.exp() * (p - q) + q.exp() * (q - p)).sum())
                frames += 1
        assert found == pytest.approx(total / frames, rel=1e-3) and found > 0
        for layer in network.lstm:  # the convolutions alone see less than the margin
            layer.weight_hh_l0.zero_()
            layer.bias_ih_l0[8:16] = -50.0
        assert float(_inconsistency(network, signal, None, network(signal), margin)) < 1e-9


def test_inconsistency_of_a_crf_is_between_its_moves():
    torch.manual_seed(6)
    network, signal, margin = Basecaller(replace(CRF, state_length=1)), torch.randn(1, 1, 600), 60
    with torch.no_grad():
        scores, window = network(signal)[:, 0].double(), network(signal[:, :, margin : 600 - margin])[:, 0].double()
        divergences = []
        for step in range(2 * margin // 6, (600 - 2 * margin) // 6):
            stays = [2.0] * 4  # of four states
            p, q = (torch.tensor([*row.tolist(), *stays]).softmax(0) for row in (scores[step], window[step - margin // 6]))
            divergences.append(float((p[:16] - q[:16]) @ (p / q).log()[:16] + (p[16:] - q[16:]).sum() * (p / q).log()[16]))
        found = float(_inconsistency(network, signal, None, network(signal), margin))
    assert found == pytest.approx(np.mean(divergences), rel=1e-3) and found > 0


@pytest.mark.parametrize("shape", [None, CRF])
def test_consistency_is_learned(prepared, shape):
    found = {}
    for consistency in (0.0, 10.0):
        t = trainer(prepared, shape=shape or prepared[0].shape, steps=40, consistency=consistency)
        steps = [t.advance(t._sampler.batch(step)) for step in range(40)]
        assert (steps[-1].inconsistency > 0) == (consistency > 0)
        losses = [step.surprise if shape else step.divergence for step in steps]
        assert losses[-1] < (0.7 if shape else 0.6) * losses[0]
        signal = t._sampler.batch(40).signal
        with torch.no_grad():
            found[consistency] = float(_inconsistency(t.network, signal, None, t.network(signal), 24))
    assert found[10.0] < 0.7 * found[0.0]


def test_a_head_of_two_frames_per_step_learns_as_well(prepared):
    t = trainer(prepared, shape=replace(prepared[0].shape, stride=6), steps=60)
    steps = [t.advance(t._sampler.batch(step)) for step in range(60)]
    assert steps[-1].divergence < 0.5 * steps[0].divergence


def test_frames_of_a_step_come_one_after_another():
    torch.manual_seed(3)
    network = Basecaller(Shape(width=12, layers=1, stem=4, stride=6)).eval()
    signal = torch.randn(2, 1, 60)
    with torch.no_grad():
        network.head.bias.copy_(torch.arange(10.0))
        network.head.weight.zero_()
        scores = network(signal)
    assert scores.shape == (20, 2, 5)
    assert torch.equal(scores[0::2], torch.arange(5.0).expand(10, 2, 5))
    assert torch.equal(scores[1::2], torch.arange(5.0, 10.0).expand(10, 2, 5))


def test_the_loss_of_a_crf_falls(prepared):
    t = trainer(prepared, shape=CRF, steps=80)
    steps = [t.advance(t._sampler.batch(step)) for step in range(80)]
    assert steps[-1].surprise < 0.5 * steps[0].surprise and all(step.divergence == 0 for step in steps)


@pytest.mark.parametrize("shape", [None, CRF])
def test_how_many_devices_share_the_work_changes_no_bit(prepared, shape):
    runs = [trainer(prepared, devices=[CPU] * n, shape=shape, steps=4, parts=4) for n in (1, 2, 3)]
    for t in runs:
        for step in range(4):
            t.advance(t._sampler.batch(step))
    assert torch.equal(weights(runs[0].network), weights(runs[1].network))
    assert torch.equal(weights(runs[0].network), weights(runs[2].network))


def test_what_a_crf_has_to_spell():
    bases = np.array([0, 1, 0, 2, 3, 0, 0, 4, 4, 1, 0, 2], np.uint8)
    cut = spelling(bases, 4, 10, 2)
    assert [list(part) for part in cut] == [[0, 1], [2, 3, 3, 0]]
    # One base before is too few for a state of three: two of those emitted complete it.
    assert [list(part) for part in spelling(bases, 2, 10, 3)] == [[0, 1, 2], [3, 3, 0]]
    assert spelling(bases, 10, 11, 2) is None and spelling(bases, 0, 2, 2) is None


def test_unknown_frames_are_spelled_by_the_targets():
    targets = np.eye(5, dtype=np.float32)[[0, 1, 1, 0, 1, 2, 2, 0]]
    unknown = np.full(8, UNKNOWN, np.uint8)
    assert list(spelled(targets, unknown)) == [0, 1, 0, 0, 1, 2, 0, 0]
    known = np.array([0, 3, 0, 0, 3, 0, 0, 0], np.uint8)
    assert spelled(targets, known) is known


@pytest.mark.parametrize("threads", [1, 3])
def test_seeds_and_nothing_else_decide(prepared, tmp_path, threads):
    runs = [trainer(prepared, steps=4, threads=n) for n in (2, threads)]
    other = trainer(prepared, steps=4, seed=2)
    for t in (*runs, other):
        t.run(tmp_path / "c.pt")
    assert torch.equal(weights(runs[0].network), weights(runs[1].network))
    assert not torch.equal(weights(runs[0].network), weights(other.network))


@pytest.mark.parametrize("shape, dropout", [(None, 0.0), (None, 0.3), (CRF, 0.0)])
def test_a_resumed_run_ends_like_an_unbroken_one(prepared, tmp_path, shape, dropout):
    whole = trainer(prepared, shape=shape, steps=8, dropout=dropout)
    whole.run(tmp_path / "whole.pt")
    broken = trainer(prepared, shape=shape, steps=8, dropout=dropout)
    broken.run(tmp_path / "broken.pt", stopped=lambda: broken.step == 3)
    resumed = trainer(prepared, shape=shape, steps=8, dropout=dropout)
    resumed.load(tmp_path / "broken.pt")
    assert resumed.step == 3
    resumed.run(tmp_path / "broken.pt")
    assert torch.equal(weights(resumed.network), weights(whole.network))
    assert torch.equal(weights(resumed.average), weights(whole.average))
    assert torch.equal(weights(load_average(tmp_path / "broken.pt")), weights(whole.average))


def test_every_chunk_does_without_other_channels(prepared):
    t = trainer(prepared, steps=8, dropout=0.25)
    kept = t._kept(slice(0, 400))
    assert kept.unique().tolist() == pytest.approx([0, 4 / 3])
    assert float(kept.mean()) == pytest.approx(1, abs=0.02)
    assert len(kept.flatten(0, 1).unique(dim=0)) > 100
    assert not torch.equal(kept, t._kept(slice(400, 800)))
    t.step += 1
    assert not torch.equal(kept, t._kept(slice(0, 400)))


def test_a_layer_that_adds_nothing_is_none():
    torch.manual_seed(1)
    network, signal = Basecaller(Shape(width=8, layers=3, stem=4)).eval(), torch.randn(2, 1, 120)
    kept = torch.ones(3, 2, 8)
    assert torch.equal(network(signal, kept=kept), network(signal))
    kept[1, 0] = 0
    partly = network(signal, kept=kept)
    shorter = copy.deepcopy(network)
    for p in shorter.lstm[1].parameters():
        p.data.zero_()  # gates of a half, of a cell that stays zero
    torch.testing.assert_close(partly[:, 0], shorter(signal)[:, 0])
    torch.testing.assert_close(partly[:, 1], network(signal)[:, 1])


def test_a_second_recipe_starts_where_the_first_ended(prepared, tmp_path):
    first = trainer(prepared, steps=3)
    first.run(tmp_path / "first.pt")
    second = trainer(prepared, steps=2, seed=5)
    second.load(tmp_path / "first.pt", whole_budget=True)
    assert second.step == 0 and torch.equal(weights(second.network), weights(first.network))
    second.run(tmp_path / "second.pt")
    assert second.step == 2 and not torch.equal(weights(second.network), weights(first.network))


def test_a_recipe_can_name_the_network_that_it_begins_from(world, tmp_path):
    torch.manual_seed(2)
    network = Basecaller(Shape(width=16, layers=2, stem=4))
    export.write(network, tmp_path / "first.onnx")
    text = world.recipe.read_text().replace("steps = 150", 'steps = 1\nbegins = "first.onnx"').replace("1e-2", "1e-9")
    (tmp_path / "toy.toml").write_text(text)
    for command, *rest in (["prepare", "--data", str(world.folder)], ["train"]):
        assert main([command, str(tmp_path / "toy.toml"), "--work", str(tmp_path / "work"), *rest]) == 0
    assert torch.allclose(weights(load_average(tmp_path / "work" / "checkpoint.pt")), weights(network), atol=1e-6)


def test_a_recipe_that_names_nothing_begins_with_random_weights():
    assert Training(steps=1, begins="").begins == {} and Training(steps=1, begins="a").begins == {"a": 1.0}


def test_a_recipe_can_begin_from_a_mixture(world, tmp_path):
    torch.manual_seed(8)
    networks = [Basecaller(Shape(width=16, layers=2, stem=4)) for _ in range(2)]
    for name, network in zip(("first", "second"), networks, strict=True):
        export.write(network, tmp_path / f"{name}.onnx")
    begins = 'begins = { "first.onnx" = 0.75, "second.onnx" = 0.25 }'
    text = world.recipe.read_text().replace("steps = 150", f"steps = 1\n{begins}")
    (tmp_path / "toy.toml").write_text(text)
    expected = 0.75 * weights(networks[0]) + 0.25 * weights(networks[1])
    torch.testing.assert_close(weights(export.read_mixture(Recipe.load(tmp_path / "toy.toml").training.begins)), expected)


def test_a_checkpoint_of_another_shape_is_refused(prepared, tmp_path):
    trainer(prepared, steps=1).save(tmp_path / "c.pt")
    recipe, store = prepared
    other = replace(recipe, shape=Shape(width=8, layers=2, stem=4))
    with pytest.raises(ValueError, match="c.pt"):
        Trainer(other, Sampler(other, store)).load(tmp_path / "c.pt")


def test_data_prepared_for_another_recipe_is_refused(prepared):
    recipe, store = prepared
    other = replace(recipe, sources=(replace(recipe.sources[0], truth_weight=0.9), *recipe.sources[1:]))
    with pytest.raises(ValueError, match="labelled.*prepare"):
        Sampler(other, store)
    shared_out = replace(recipe, sources=tuple(replace(source, share=2.0) for source in recipe.sources))
    assert Sampler(shared_out, store).batch(0).signal.shape == (8, 1, 360)


def test_learning_rate_rises_holds_and_falls():
    training = Training(minutes=10, learning_rate=1, warmup=10, decay=0.5)
    assert learning_rate(training, 0, 0) == pytest.approx(0.1)
    assert learning_rate(training, 100, 150) == 1
    assert learning_rate(training, 100, 450) == pytest.approx(0.5)
    assert learning_rate(training, 100, 700) == 0


@pytest.mark.parametrize("half", [False, True])
def test_orthogonalised_matrices_have_singular_values_near_one(half):
    singular = torch.linalg.svdvals(orthogonalise(torch.randn(3, 16, 16, generator=torch.Generator().manual_seed(0)), half))
    assert singular.median() > 0.6 and singular.max() < 1.4


def test_augmentation_has_the_size_that_is_asked_for():
    rng = np.random.default_rng(0)
    silent = np.zeros(300, np.float32)
    assert (augment(silent, Augmentation(0, 0, 0, 0), rng) == 0).all()
    shifts = [augment(silent, Augmentation(0, 0.5, 0, 0), rng)[0] for _ in range(2000)]
    assert np.std(shifts) == pytest.approx(0.5, rel=0.1)
    noises = [augment(silent, Augmentation(0, 0, 0, 0.2), rng).std() for _ in range(500)]
    assert max(noises) < 0.24 and np.mean(noises) == pytest.approx(0.1, rel=0.1)


def test_levels_are_a_deviation():
    with pytest.raises(ValueError, match="deviations are not negative"):
        Augmentation(levels=-0.1)


def test_levels_stay_for_as_long_as_a_base():
    rng = np.random.default_rng(0)
    silent = np.zeros(3000, np.float32)
    chunks = [augment(silent, Augmentation(0, 0, 0, 0, levels=0.2), rng) for _ in range(300)]
    assert np.mean([chunk.std() for chunk in chunks]) == pytest.approx(0.1, rel=0.1)
    assert np.mean([np.count_nonzero(np.diff(chunk)) for chunk in chunks]) == pytest.approx(3000 / 9, rel=0.02)


@pytest.mark.parametrize("layers, stride", [(1, 3), (4, 3), (2, 6), (3, 9)])
def test_the_exported_graph_equals_the_network(tmp_path, layers, stride):
    torch.manual_seed(3)
    network = Basecaller(Shape(width=12, layers=layers, stem=4, stride=stride)).eval()
    export.write(network, tmp_path / "model.onnx")
    assert export.read(tmp_path / "model.onnx").shape == network.shape
    manifest = Manifest("m", "1", "", "r9.4", (4000,), 3, 900, 120)
    signal = np.random.default_rng(0).normal(size=(3, 900)).astype(np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(signal[:, None])).softmax(-1).permute(1, 0, 2).numpy()
    assert expected.shape == (3, 300, 5)
    assert np.abs(Model(tmp_path / "model.onnx", manifest).scores(signal) - expected).max() < 1e-5
    first = (tmp_path / "model.onnx").read_bytes()
    export.write(network, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == first


@pytest.mark.parametrize("stride", [3, 6])
def test_a_blank_that_is_disfavoured_leaves_the_rest_in_proportion(stride):
    network = Basecaller(Shape(width=12, layers=1, stem=4, stride=stride)).eval()
    signal = torch.randn(2, 1, 60 * stride, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        before = network(signal)
        favour_blank(network, -0.5)
        change = network(signal) - before
    assert torch.allclose(change, torch.tensor([-0.5, 0, 0, 0, 0]).expand_as(change), atol=1e-5)
    with pytest.raises(ValueError, match="no blank"):
        favour_blank(Basecaller(Shape(width=12, layers=1, stem=4, stride=stride, state_length=2)), -0.5)


def test_a_mixture_is_between_its_networks():
    networks = [Basecaller(Shape(width=12, layers=2, stem=4)) for _ in range(3)]
    mixed = mixture(list(zip(networks, (0.5, 0.3, 0.2), strict=True)))
    for now, a, b, c in zip(*(one.parameters() for one in (mixed, *networks)), strict=True):
        assert torch.allclose(now, 0.5 * a + 0.3 * b + 0.2 * c, atol=1e-6)
    with pytest.raises(ValueError, match="no weights in common"):
        mixture([(networks[0], 0.5), (Basecaller(replace(networks[0].shape, width=16)), 0.5)])


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"begins": {"a": 0.5, "b": 0.6}}, "begins names are above 0 and 1 together"),
        ({"begins": {"a": 1.5, "b": -0.5}}, "begins names are above 0 and 1 together"),
        ({"exported_with": {"a": 1.0}}, "exported_with names are above 0 and together below 1"),
        ({"exported_with": {"a": -0.1}}, "exported_with names are above 0 and together below 1"),
    ],
)
def test_shares_that_make_no_mixture_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Training(steps=1, **changes)


def test_what_is_exported_has_its_share_of_others(world, tmp_path):
    torch.manual_seed(9)
    other = Basecaller(Shape(width=16, layers=2, stem=4))
    export.write(other, tmp_path / "other.onnx")
    mixed = 'steps = 1\nexported_with = { "other.onnx" = 0.4 }'
    (tmp_path / "toy.toml").write_text(world.recipe.read_text().replace("steps = 150", mixed))
    work, model = tmp_path / "work", tmp_path / "model"
    for command, *rest in (["prepare", "--data", str(world.folder)], ["train"], ["export", "--model", str(model)]):
        assert main([command, str(tmp_path / "toy.toml"), "--work", str(work), *rest]) == 0
    expected = 0.6 * weights(load_average(work / "checkpoint.pt")) + 0.4 * weights(other)
    torch.testing.assert_close(weights(export.read(model / "model.onnx")), expected)


@pytest.mark.parametrize("stride, state_length", [(5, 2), (6, 3)])
def test_the_exported_crf_equals_the_network_and_is_read_back(tmp_path, stride, state_length):
    torch.manual_seed(3)
    network = Basecaller(Shape(width=12, layers=3, stem=4, stride=stride, state_length=state_length)).eval()
    export.write(network, tmp_path / "model.onnx")
    again = export.read(tmp_path / "model.onnx")
    assert again.shape == network.shape
    signal = torch.randn(2, 1, 60 * stride, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(again(signal), network(signal))
        assert network(signal).shape == (60, 2, 4 ** (state_length + 1))


@pytest.mark.parametrize(
    "shape", [Shape(width=96, layers=5, stem=16), Shape(width=96, layers=5, stem=16, stride=6, state_length=3)]
)
def test_half_precision_is_close_and_half_as_large(tmp_path, shape):
    torch.manual_seed(3)
    network = Basecaller(shape).eval()
    export.write(network, tmp_path / "model.onnx", tmp_path / "model.half.onnx")
    whole, half = ((tmp_path / name).read_bytes() for name in ("model.onnx", "model.half.onnx"))
    assert len(half) < 0.55 * len(whole)
    signal = np.random.default_rng(0).normal(size=(2, 1, 900)).astype(np.float32)
    scores = [onnxruntime.InferenceSession(one).run(None, {"signal": signal})[0] for one in (whole, half)]
    assert scores[0].dtype == scores[1].dtype == np.float32
    assert 0 < np.abs(scores[0] - scores[1]).max() < 1e-2 * np.abs(scores[0]).max()


def test_a_network_that_half_precision_ruins_is_not_exported(tmp_path):
    network = Basecaller(Shape(width=12, layers=2, stem=4)).eval()
    with torch.no_grad():
        network.down.weight.mul_(1e7)  # 65504 is the largest half
        network.head.weight.mul_(1e-7)
    with pytest.raises(RuntimeError, match=r"model.half.onnx: the exported graph differs"):
        export.write(network, tmp_path / "model.onnx", tmp_path / "model.half.onnx")


def test_a_head_of_two_frames_starts_from_the_layers_below_one_of_one(prepared):
    torch.manual_seed(3)
    one = Basecaller(Shape(width=16, layers=2, stem=4))
    t = trainer(prepared, shape=replace(prepared[0].shape, stride=6), steps=1)
    head = t.network.head.weight.clone()
    t.begin(one)
    assert torch.equal(t.network.head.weight, head)
    assert torch.equal(t.network.lstm[0].weight_hh_l0, one.lstm[0].weight_hh_l0)


def test_a_crf_starts_from_the_layers_below_another_head(prepared, tmp_path):
    torch.manual_seed(3)
    ctc = Basecaller(Shape(width=12, layers=2, stem=4))
    t = trainer(prepared, shape=CRF, steps=1)
    head = t.network.head.weight.clone()
    t.begin(ctc)
    assert torch.equal(t.network.head.weight, head)
    assert torch.equal(t.network.stem.weight, ctc.stem.weight)


@pytest.mark.parametrize("state_length", [0, 3])
def test_a_manifest_is_read_back_unchanged(tmp_path, state_length):
    scores = "transitions" if state_length else "log_probabilities"
    manifest = Manifest("m", "1", "", "r9.4", (4000,), 6, 900, 120, scores=scores, state_length=state_length)
    for one in (
        manifest,
        replace(manifest, quality_neighbours=5, quality_neighbour_share=0.5, quality_curve=((3.5, 4.0), (20.0, 19.5))),
    ):
        one.write(tmp_path)
        assert Manifest.load(tmp_path / "manifest.toml") == one


@pytest.mark.parametrize("count, share", [(5, 0.0), (0, 0.5), (5, 1.0)])
def test_neighbours_without_a_share_are_refused(count, share):
    with pytest.raises(ValueError, match="quality_neighbours and their share"):
        Manifest("m", "1", "", "r9.4", (4000,), 6, 900, 120, quality_neighbours=count, quality_neighbour_share=share)


def test_a_recipe_can_ask_that_neighbours_count(world, tmp_path):
    text = world.recipe.read_text()
    (tmp_path / "r.toml").write_text(text.replace("overlap = 120", "overlap = 120\nneighbours = 5\nneighbour_share = 0.5", 1))
    asked, plain = (Recipe.load(path).manifest for path in (tmp_path / "r.toml", world.recipe))
    assert (asked.quality_neighbours, asked.quality_neighbour_share) == (5, 0.5)
    assert (plain.quality_neighbours, plain.quality_neighbour_share) == (0, 0.0)


def test_qualities_that_look_at_neighbours_are_judged_by_the_engine_alone(tmp_path):
    Manifest("m", "1", "", "r9.4", (4000,), 6, 900, 120, quality_neighbours=5, quality_neighbour_share=0.5).write(tmp_path)
    with pytest.raises(ValueError, match="neighbours count in its qualities, which the engine alone knows"):
        Model.open(tmp_path)


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:99", "cpu:0"])
def test_a_device_that_is_not_there_is_named(name):
    with pytest.raises(ValueError, match=f"'{name}'"):
        chosen(name)


def test_from_recordings_to_a_model_in_one_command(world, tmp_path):
    command = ["all", str(world.recipe), "--data", str(world.folder), "--work", str(tmp_path / "work")]
    assert main([*command, "--model", str(tmp_path / "toy")]) == 0
    model = Model.open(tmp_path / "toy")
    assert len(model.manifest.sha256) == 64 and model.manifest.quality_curve
    card = (tmp_path / "toy" / "MODEL_CARD.md").read_text()
    assert "held out" in card and "toy teacher" in card
    rows = progress.read(tmp_path / "work" / progress.NAME)
    assert rows[-1].step == 150 and rows[-1].divergence > 0 and rows[-1].samples_per_second > 0
    assert "Training of toy" in (tmp_path / "toy" / progress.PICTURE).read_text() and progress.PICTURE in card
    from basecall_train.evaluation import evaluate

    result = evaluate(model, Recipe.load(world.recipe).evaluations[0], world.folder)
    assert len(result.identities) == 2 and np.mean(result.identities) > 0.97


def test_agreement_of_teachers_counts_more_than_what_one_says():
    one = np.array([[0.1, 0.6, 0.3, 0, 0], [0.9, 0.1, 0, 0, 0]], np.float32)
    other = np.array([[0.1, 0.2, 0.7, 0, 0], [0.9, 0.1, 0, 0, 0]], np.float32)
    both = joined([one, other])
    assert both.argmax(1).tolist() == [2, 0] and both.sum(1) == pytest.approx(1)
    assert both[0, 1] / both[0, 2] == pytest.approx(np.sqrt(0.6 / 0.3 * 0.2 / 0.7), rel=1e-2)
    assert joined([one]) is one


def test_networks_of_our_own_join_the_teacher(world, tmp_path):
    torch.manual_seed(1)
    export.write(Basecaller(Shape(width=16, layers=2, stem=4)), tmp_path / "ours.onnx")
    text = world.recipe.read_text()
    (tmp_path / "alone.toml").write_text(text)
    (tmp_path / "joined.toml").write_text(text.replace("share = 1", 'share = 1\njoined_by = ["ours.onnx"]', 1))
    for name in ("alone", "joined"):
        prepare(Recipe.load(tmp_path / f"{name}.toml"), world.folder, tmp_path / name)
    targets = [np.load(tmp_path / name / "labelled" / "targets.npy") for name in ("alone", "joined")]
    assert np.abs(targets[0] - targets[1]).max() > 0.1
    assert "truth: genome, joined by ours |" in _origin(Recipe.load(tmp_path / "joined.toml"))
    with pytest.raises(ValueError, match="labelled: not prepared"):
        Sampler(Recipe.load(tmp_path / "joined.toml"), tmp_path / "alone")
    export.write(Basecaller(CRF), tmp_path / "ours.onnx")
    with pytest.raises(ValueError, match="ours.onnx: only a network with a CTC head"):
        prepare(Recipe.load(tmp_path / "joined.toml"), world.folder, tmp_path / "crf")


def test_what_a_truth_asks_of_a_read_is_part_of_what_is_prepared(prepared, world, tmp_path):
    _, store = prepared
    text = world.recipe.read_text()
    for change in ("least_identity = 0.7", "least_aligned = 0.5"):
        (tmp_path / "other.toml").write_text(text.replace("share = 1", f"share = 1\n{change}", 1))
        with pytest.raises(ValueError, match="labelled: not prepared"):
            Sampler(Recipe.load(tmp_path / "other.toml"), store)
    (tmp_path / "same.toml").write_text(text.replace("share = 1", "share = 1\nleast_identity = 0.8\nleast_aligned = 0.9", 1))
    Sampler(Recipe.load(tmp_path / "same.toml"), store)


def test_all_teachers_hear_chunks_of_another_speed(world, tmp_path):
    torch.manual_seed(1)
    export.write(Basecaller(Shape(width=16, layers=2, stem=4)), tmp_path / "ours.onnx")
    changed = 'name = "called"\njoined_by = ["ours.onnx"]\nfaster = 0.3\ntruth_weight = 0.0'
    text = world.recipe.read_text().replace('name = "called"', changed)
    text = text.replace("share = 1\n", "share = 1e-9\n", 1)  # of the other source
    (tmp_path / "joined.toml").write_text(text)
    recipe = Recipe.load(tmp_path / "joined.toml")
    prepare(recipe, world.folder, tmp_path / "store")
    batch = Sampler(replace(recipe, augmentation=Augmentation(0, 0, 0, 0)), tmp_path / "store").batch(0)
    teachers = [
        Model(tmp_path / "store" / TEACHER, recipe.teacher),
        Model(tmp_path / "ours.onnx", replace(recipe.manifest, scores="log_probabilities")),
    ]
    heard = [teacher.scores(batch.signal[:, 0].numpy()) for teacher in teachers]
    assert np.abs(heard[0] - heard[1]).max() > 0.1
    assert np.allclose(batch.targets.permute(1, 0, 2).numpy(), joined(heard), atol=1e-5)


def test_a_missing_file_is_one_line_and_status_1(world, tmp_path, capsys):
    status = main(["prepare", str(world.recipe), "--data", str(tmp_path), "--work", str(tmp_path)])
    assert status == 1
    assert "teacher.onnx" in capsys.readouterr().err


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("steps = 150", "steps = 150\nminutes = 3", "minutes or steps"),
        ("stem = 4", "stem = 4\nstride = 4", "CTC head needs a stride that is a multiple of 3"),
        ("window = 900\noverlap = 120\n[network]", "window = 903\noverlap = 120\n[network]\nstride = 6", "multiple of stride 6"),
        ("stem = 4", "stem = 4\nstride = 7\nstate_length = 3", "multiples of stride 7"),
        ("steps = 150", "steps = 150\nmemory = -1", "memory is a number of samples"),
        ("steps = 150", "steps = 150\nconsistency = -1.0", "consistency is a weight"),
        ("steps = 150", "steps = 150\ndropout = 1", "dropout is a share"),
        ("steps = 150", "steps = 150\nmentored = 0.5", "mentored is the share"),
        ("steps = 150", 'steps = 150\nmentors = ["m.onnx"]', "mentored is the share"),
        ("steps = 150", 'steps = 150\nmentors = ["m.onnx"]\nmentored = 1.5', "mentored is the share"),
        ("steps = 150", 'steps = 150\nmentors = ["m.onnx"]\nmentored = 0.5', "only a CRF .* can learn from mentors"),
        ("chunk = 360", "chunk = 240\nconsistency = 1.0", "consistency is for chunks of more than 240 samples"),
        ("share = 1", "share = -1", "share"),
        ("share = 1", "share = 1\nknown = 1.5", "known"),
        ("share = 1", "share = 1\nleast_identity = 0", "least_identity and least_aligned are parts"),
        ("share = 1", "share = 1\nleast_aligned = 1.5", "least_identity and least_aligned are parts"),
        ('recordings = "reads.blow5"', 'recordings = "reads.blow5"\npieces_of = ["called"]', "one of recordings"),
        ('recordings = "reads.blow5"\nreference = "genome.fa"', 'pieces_of = ["nobody"]', "nobody"),
        ('recordings = "reads.blow5"\nreference', 'pieces_of = ["called"]\nreference', "only recordings"),
        ('recordings = "reads.blow5"', 'recordings = "reads.blow5"\nbalance = 2', "balance is a power"),
        ('recordings = "reads.blow5"\nreference = "genome.fa"', 'pore_model = "p.tsv"\njoined_by = ["a.onnx"]', "nobody hears"),
        ('reference = "genome.fa"', 'reference = "genome.fa"\noverlaps = true', "overlaps and moves, not two"),
        ('name = "toy"', "", "name"),
    ],
)
def test_a_wrong_recipe_is_named(world, tmp_path, old, new, message):
    (tmp_path / "wrong.toml").write_text(world.recipe.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=f"wrong.toml.*{message}"):
        Recipe.load(tmp_path / "wrong.toml")


def test_half_precision_says_what_single_precision_says():
    torch.manual_seed(3)
    network, signal = Basecaller(CRF), torch.randn(4, 1, 360)
    assert distance(network, CPU, torch.float32, signal) == 0
    assert 0 < distance(network, CPU, torch.bfloat16, signal) < 0.05


@pytest.mark.parametrize("asked", [None, torch.bfloat16])
def test_a_precision_that_a_device_gets_wrong_is_not_trained_in(prepared, monkeypatch, caplog, asked):
    recipe, store = prepared
    t = Trainer(recipe, Sampler(recipe, store), precision=asked)
    t._workers.precision = torch.bfloat16  # also where that isn't the fastest
    signal = t._sampler.batch(0).signal
    t.check_precision(signal)
    assert t._workers.precision == torch.bfloat16
    monkeypatch.setattr("basecall_train.training.distance", lambda *_: 0.7)
    if asked:
        with pytest.raises(ValueError, match="bfloat16 differ from those in float32 by 0.70"):
            t.check_precision(signal)
    else:
        t.check_precision(signal)
        assert t._workers.precision == torch.float32 and "training in float32" in caplog.text
        assert t.advance(t._sampler.batch(0)).gradient > 0
