"""How a loss is scaled for float16."""

import torch

from basecall_train.devices import LossScale


def test_other_types_need_no_scale():
    scale = LossScale(torch.bfloat16)
    assert scale.factor == 1 and not scale.settle(False) and scale.factor == 1


def test_a_scale_falls_where_gradients_overflow_and_grows_back():
    scale = LossScale(torch.float16)
    first = scale.factor
    assert scale.settle(False) and scale.factor == first / 2
    assert all(not scale.settle(True) for _ in range(scale.PATIENCE)) and scale.factor == first
    for _ in range(100 * scale.PATIENCE):
        scale.settle(True)
    assert scale.factor == scale.MOST


def test_no_scale_makes_up_for_a_loss_that_is_no_number():
    scale = LossScale(torch.float16)
    told = [scale.settle(False) for _ in range(20)]
    assert told[:15] == [True] * 15 and not any(told[16:])


def test_a_scale_is_resumed_where_it_is_needed():
    scale, again, other = LossScale(torch.float16), LossScale(torch.float16), LossScale(torch.float32)
    for finite in (False, True, True):
        scale.settle(finite)
    again.load_state_dict(scale.state_dict())
    other.load_state_dict(scale.state_dict())
    assert again.state_dict() == scale.state_dict() and other.factor == 1
    again.load_state_dict(other.state_dict())
    assert again.factor == scale.factor
