import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from basecall_train.ctc import ctc_losses


def judged(losses, scores, **kinds):
    """Returns losses and their sum's gradient by the logits that scores come from."""
    logits = scores.detach().clone().requires_grad_(True)
    loss = losses(F.log_softmax(logits, -1), **kinds)
    (gradient,) = torch.autograd.grad(loss[loss.isfinite()].sum(), logits)
    return loss.detach(), gradient


def pytorchs(scores, lengths, spelled):
    classes, sizes = torch.from_numpy(np.concatenate(spelled)), torch.tensor([len(s) for s in spelled])
    return F.ctc_loss(scores, classes, torch.tensor(lengths), sizes, reduction="none", zero_infinity=False)


@pytest.mark.parametrize(
    ("frames", "items", "bases", "sharp"),
    [
        (1, 1, 1, 1.0),
        (2, 3, 2, 1.0),
        (30, 6, 9, 3.0),
        (400, 5, 130, 0.1),
        (400, 5, 130, 10.0),
        (1200, 2, 400, 1.0),
        (1200, 2, 400, 10.0),  # so improbable by the distributions that double precision does not suffice
    ],
)
def test_losses_and_gradients_are_pytorchs_in_double_precision(frames, items, bases, sharp):
    rng = np.random.default_rng(frames)
    scores = torch.from_numpy(rng.standard_normal((frames, items, 5)) * sharp)
    lengths = [frames - n * (frames // 10) for n in range(items)]
    spelled = [rng.integers(1, 5, rng.integers(1, min(bases, length // 2 + 1), endpoint=True)) for length in lengths]
    want, its = judged(pytorchs, scores, lengths=lengths, spelled=spelled)
    for precision, exact in ((torch.float64, 1e-9), (torch.float32, 2e-5)):
        loss, gradient = judged(ctc_losses, scores.to(precision), lengths=lengths, spelled=spelled)
        assert loss.dtype == gradient.dtype == precision
        torch.testing.assert_close(loss.double(), want, rtol=exact, atol=exact)
        for n, length in enumerate(lengths):
            if want[n].isfinite():
                torch.testing.assert_close(gradient[:length, n].double(), its[:length, n], rtol=exact, atol=exact)


def test_the_loss_is_that_of_all_paths_together():
    rng = np.random.default_rng(7)
    scores = F.log_softmax(torch.from_numpy(rng.standard_normal((6, 1, 3))), -1)
    spelled = [1, 2, 2]
    total = 0.0
    for path in itertools.product(range(3), repeat=6):
        if [c for c, _ in itertools.groupby(path) if c] == spelled:
            total += np.exp(sum(float(scores[t, 0, c]) for t, c in enumerate(path)))
    (loss,) = ctc_losses(scores, [6], [np.array(spelled)])
    assert float(loss) == pytest.approx(-np.log(total), rel=1e-12)


def test_where_there_is_no_room_nothing_is_learned():
    scores = torch.zeros(4, 3, 5, requires_grad=True)
    spelled = [np.array([1, 2, 3]), np.array([1, 1, 2, 2]), np.array([1, 2, 3, 4, 1])]  # equal ones need a blank between them
    losses = ctc_losses(F.log_softmax(scores, -1), [4, 4, 4], spelled)
    assert losses.isinf().tolist() == [False, True, True]
    (gradient,) = torch.autograd.grad(losses.sum(), scores)
    assert gradient[:, 0].abs().sum() > 0
    assert not gradient[:, 1:].any()


def test_a_class_that_is_ruled_out_has_no_path():
    scores = torch.zeros(4, 1, 5)
    scores[:, 0, 2] = -torch.inf
    scores.requires_grad_(True)
    losses = ctc_losses(scores, [4], [np.array([1, 2])])
    assert losses.isinf().all()
    (gradient,) = torch.autograd.grad(losses.sum(), scores)
    assert not gradient.any()


@pytest.mark.parametrize("bases", range(4, 90, 2))
def test_what_doubles_hardly_hold_has_a_gradient(bases):
    scores = torch.full((200, 1, 5), -12.0)
    scores[:, :, 0] = 0.0
    scores.requires_grad_(True)
    spelled = [np.array([2, 3] * 100)[:bases]]
    given = scores.detach().double().requires_grad_(True)
    expected = F.ctc_loss(
        F.log_softmax(given, -1), torch.from_numpy(spelled[0]), torch.tensor([200]), torch.tensor([bases]), reduction="sum"
    )
    found = ctc_losses(F.log_softmax(scores, -1), [200], spelled)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    (gradient,) = torch.autograd.grad(found.sum(), scores)
    (wanted,) = torch.autograd.grad(expected, given)
    torch.testing.assert_close(gradient.double(), wanted, rtol=1e-3, atol=1e-4)
