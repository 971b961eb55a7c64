"""Devices, several processes that share each batch, going on, and what training costs."""

import json
import os
import signal
import sys
import threading
import time
import types
from dataclasses import replace

import pytest
import torch

from biomarker_train import devices, energy, evaluation, member, training
from biomarker_train.__main__ import main
from biomarker_train.encoding import Encoder
from biomarker_train.network import Dropout
from biomarker_train.processes import Processes

CPU = torch.device("cpu")


@pytest.fixture
def job(folder, recipe, terms) -> member.Job:
    table = recipe.table(folder)
    features = recipe.features(table, terms)
    data = training.data_of(Encoder(features), table.isolates, 3, 1)
    # A batch that two processes can't halve, and a last one of a single isolate, of which one process has none.
    settings = replace(recipe.settings, epochs=6, batch=33)
    return member.Job(features, data.of(torch.arange(100)), data.of(torch.arange(100, 160)), recipe.shape, settings, 5)


@pytest.fixture(scope="module")
def two():
    """Two processes, which take seconds to start. After a death or a fault the next training starts them again."""
    with Processes([CPU, CPU]) as processes:
        yield processes
        members = list(processes._members)
    assert not any(one.is_alive() for one in members)


def apart(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def test_what_is_dropped_is_what_pytorch_drops():
    x = torch.rand(33, 50)
    torch.manual_seed(1)
    expected = torch.nn.Dropout(0.3)(x)
    drop = Dropout(0.3)
    for share in (slice(0, 33), slice(0, 16), slice(16, 33)):
        torch.manual_seed(1)
        drop.rows = 33, share
        assert torch.equal(drop(x[share]), expected[share])
    assert torch.equal(drop.eval()(x), x)


def test_two_processes_learn_what_one_does(job, two):
    alone, _ = member.train_member(job)
    longer, _ = member.train_member(replace(job, settings=replace(job.settings, epochs=5)))
    assert apart(alone, longer) > 1e-3  # an epoch more is far more than what two processes may differ by
    together, cost = two.train(job)
    assert apart(alone, together) < 1e-6
    # The same processes train the next one.
    before = [one.pid for one in two._members]
    other = replace(job, seed=6)
    assert apart(member.train_member(other)[0], two.train(other)[0]) < 1e-6
    assert before == [one.pid for one in two._members]
    assert 0 < cost.processor_seconds < two.processor_seconds


class Stopped(Exception):
    pass


def interrupted(job: member.Job, epochs: int, monkeypatch) -> None:
    """Trains so many epochs, then is stopped as by a kill."""
    judged = member._Training.judged

    def stop(self, loss):
        if self.epoch == epochs:
            raise Stopped
        judged(self, loss)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(member._Training, "judged", stop)
        member.train_member(job)


def test_a_training_goes_on_where_it_was(job, two, tmp_path, monkeypatch):
    whole, _ = member.train_member(job)
    job = replace(job, checkpoint=tmp_path / "a" / "member-0.underway", save_every=0.0)
    interrupted(job, 4, monkeypatch)
    state = torch.load(job.checkpoint, weights_only=True)
    assert state["epoch"] == 4 and state["spent"]["seconds"] > 0
    kept = job.checkpoint.read_bytes()
    again, cost = member.train_member(job)
    assert apart(whole, again) == 0
    assert cost.seconds > state["spent"]["seconds"]

    # With another number of processes too.
    job.checkpoint.write_bytes(kept)
    assert apart(whole, two.train(job)[0]) < 1e-6


def test_a_process_that_dies_ends_all_with_one_line(job, two):
    two.train(job)
    members = list(two._members)
    said = []

    def train():
        with pytest.raises(RuntimeError) as fault:
            two.train(replace(job, settings=replace(job.settings, epochs=10**6, patience=10**6)))
        said.append(str(fault.value))

    thread = threading.Thread(target=train)
    thread.start()
    time.sleep(1)
    assert not said and all(one.is_alive() for one in members)
    os.kill(members[1].pid, signal.SIGKILL)
    thread.join(60)
    assert not thread.is_alive() and not any(one.is_alive() for one in members)
    assert said == [
        "training process 2 of 2 was ended by SIGKILL; all were stopped: run the command again, it goes on from what was saved"
    ]


def test_a_fault_of_a_process_is_one_line(job, two, tmp_path):
    path = tmp_path / "member-0.underway"
    torch.save({"made_of": {}}, path)
    with pytest.raises(RuntimeError, match=r"training process \d of 2: .*of another recipe") as fault:
        two.train(replace(job, checkpoint=path))
    assert "\n" not in str(fault.value)


def test_a_training_of_another_recipe_is_not_gone_on_with(job, tmp_path, monkeypatch):
    job = replace(job, checkpoint=tmp_path / "member-0.underway", save_every=0.0)
    interrupted(job, 2, monkeypatch)
    with pytest.raises(ValueError, match="member-0.underway: it is of another recipe"):
        member.train_member(replace(job, settings=replace(job.settings, rate=1e-3)))


def test_training_stops_early_and_keeps_the_best(job):
    settings = replace(job.settings, epochs=400, patience=3, rate=0.05)
    losses = []

    class Watched(member._Training):
        def judged(self, loss):
            losses.append(loss)
            super().judged(loss)

    original, member._Training = member._Training, Watched
    try:
        weights, _ = member.train_member(replace(job, settings=settings))
    finally:
        member._Training = original
    best = min(losses)
    assert len(losses) < 400 and all(loss > best - 1e-5 for loss in losses[-3:])
    network = member.Member(job.features, job.shape)
    network.load_state_dict(weights)
    assert member._held_out(network, job.held) == pytest.approx(best, abs=1e-4)


def test_mixed_precision_keeps_whole_weights(job):
    place = member.Place([CPU], "bf16")
    mixed, _ = member.train_member(job, place)
    whole, _ = member.train_member(job)
    assert all(tensor.dtype == torch.float32 for tensor in mixed.values())
    assert 0 < apart(mixed, whole) < 0.1
    # Not rounded to bfloat16, which would leave the low half of each weight empty.
    assert not torch.equal(mixed["own.weight"].bfloat16().float(), mixed["own.weight"])
    network = member.Member(job.features, job.shape)
    judged = []
    for weights in (mixed, whole):
        network.load_state_dict(weights)
        judged.append(member._held_out(network, job.held))
    assert judged[0] == pytest.approx(judged[1], rel=0.05)


def test_devices_are_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert devices.chosen("auto") == [CPU] and devices.chosen("cpu", 3) == [CPU] * 3
    for text, fault in (("cuda", "sees no GPU"), ("tpu", "none of auto, cpu")):
        with pytest.raises(ValueError, match=fault):
            devices.chosen(text)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    both = [torch.device("cuda", 0), torch.device("cuda", 1)]
    assert devices.chosen("auto") == devices.chosen("cuda") == devices.chosen("cuda:0,1") == both
    assert devices.chosen("cuda:1") == both[1:] and devices.chosen("cpu") == [CPU]
    for text, processes, fault in (
        ("cuda:2", 1, "2 GPUs, counted from 0"),
        ("cuda:x", 1, "none of auto, cpu"),
        ("cuda:0,0", 1, "names a GPU twice"),
        ("cuda", 2, "for processor cores"),
        ("cpu", 0, "want 1 or more"),
    ):
        with pytest.raises(ValueError, match=fault):
            devices.chosen(text, processes)


def test_a_gpu_that_is_not_there_is_one_line(folder, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    arguments = [str(folder / "recipe.toml"), "--data", str(folder), "--work", str(folder / "work")]
    assert main(["evaluate", *arguments, "--devices", "cuda"]) == 1
    said = capsys.readouterr().err.strip()
    assert said == "biomarker_train evaluate: --devices 'cuda': PyTorch sees no GPU here; take --devices cpu"


def powercap(folder, *packages: int):
    for i, count in enumerate(packages):
        for name, what, value in ((f"intel-rapl:{i}", f"package-{i}", count), (f"intel-rapl:{i}:0", "core", 7)):
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name / "name").write_text(what + "\n")
            (folder / name / "max_energy_range_uj").write_text("10000000\n")
            (folder / name / "energy_uj").write_text(f"{value}\n")
    return folder


def test_processors_joules_are_counted_past_the_end_of_the_counter(tmp_path):
    meter = energy.Meter([CPU], powercap(tmp_path, 9_000_000, 1_000_000))
    powercap(tmp_path, 500_000, 2_000_000)  # the first began again
    meter.tick()
    powercap(tmp_path, 1_500_000, 2_000_000)
    cost = meter.cost()
    assert cost.processor_joules == pytest.approx(1.5 + 1 + 1)
    assert cost.gpu_joules is None and cost.no_gpu_joules == "no GPU was used"


def test_what_is_not_counted_is_said(tmp_path):
    assert "has no counter" in energy.Meter([CPU], tmp_path / "none").cost().no_processor_joules
    path = powercap(tmp_path, 1) / "intel-rapl:0" / "energy_uj"
    path.unlink()
    cost = energy.Meter([CPU], tmp_path).cost()
    assert cost.processor_joules is None and cost.no_processor_joules == f"{path} can't be read: No such file or directory"
    known = energy.Cost(1, 2, 3.0, None, "", "no GPU was used")
    assert (known + known).processor_joules == 6
    assert replace(known, devices="a") + replace(known, devices="b") + replace(known, devices="a") == replace(
        known + known + known, devices="a; b"
    )
    total = known + cost
    assert total.processor_joules is None and "can't be read" in total.no_processor_joules


def test_gpus_joules_are_those_of_their_identifiers(monkeypatch):
    read = iter([1_000, 5_000, 3_500, 9_000])
    asked = []
    library = types.SimpleNamespace(
        NVMLError=type("NVMLError", (Exception,), {}),
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda name: asked.append(name) or name,
        nvmlDeviceGetTotalEnergyConsumption=lambda handle: next(read),
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(uuid=f"u{device.index}"))
    gpus = [torch.device("cuda", 3), torch.device("cuda", 1)]
    assert energy.Meter(gpus).cost().gpu_joules == pytest.approx(2.5 + 4)
    assert asked == ["GPU-u3", "GPU-u1"]

    def refuses(handle):
        raise library.NVMLError("Not Supported")

    library.nvmlDeviceGetTotalEnergyConsumption = refuses
    cost = energy.Meter(gpus).cost()
    assert cost.gpu_joules is None and cost.no_gpu_joules == "NVML: Not Supported"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert energy.Meter(gpus).cost().no_gpu_joules == "the Python package nvidia-ml-py is not installed"


def test_the_report_has_a_column_for_each_device(folder, recipe):
    work = folder / "work"
    report = evaluation.evaluate(recipe, folder, work)
    said = evaluation.text(report)
    assert list(report["training"]) == ["CPU (fp32)"] and "Not trained on a GPU with this work folder." in said
    column = report["training"]["CPU (fp32)"]
    # Two folds, each whole and with two shares of its groups, of two members.
    assert column["networks"] == column["measured"] == 2 * 3 * 2
    assert column["seconds"] > 0 and column["processor_seconds"] > 0 and column["devices"].endswith(", fp32")

    # What lies there is not trained again, and costs what it did.
    again = evaluation.evaluate(recipe, folder, work)
    assert again["training"] == report["training"]
    # Another precision is trained beside it.
    other = evaluation.evaluate(recipe, folder, work, Processes([CPU], "bf16"))
    assert list(other["training"]) == ["CPU (bf16)", "CPU (fp32)"]
    assert other["training"]["CPU (fp32)"] == column and other["training"]["CPU (bf16)"]["measured"] == 12

    # A run on a GPU, as its file would have it.
    costs = json.loads((work / evaluation.COSTS).read_text())
    gpu = column | {"devices": "NVIDIA H200, bf16", "devices_kind": "GPU", "gpu_joules": 1234.4, "no_gpu_joules": ""}
    (work / evaluation.COSTS).write_text(json.dumps(costs | {"GPU (bf16)": gpu}))
    said = evaluation.text(evaluation.evaluate(recipe, folder, work))
    assert "| | CPU (bf16) | CPU (fp32) | GPU (bf16) |" in said and "| none | none | 1234 |" in said and "Not trained" not in said
    # Members without a record of their cost are not counted as free.
    for path in work.glob("fold-0/*.json"):
        path.unlink()
    column = evaluation.evaluate(recipe, folder, work)["training"]["CPU (fp32)"]
    assert (column["measured"], column["networks"]) == (10, 12)
