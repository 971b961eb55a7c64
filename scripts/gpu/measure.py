#!/usr/bin/env python3
"""Measures a GPU, Porestream's kernels on it, PyTorch's LSTM beside them, and basecalling on it and on the
CPU, into a file of JSON. Each section is a process with a time limit of its own, so that one which fails or
hangs leaves the others; the file is written after each. All take less than --limit seconds.

With --device cpu it tries itself: what needs a GPU is told as an error in its section, and the rest is done with little.
report.py makes tables of the file."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def sections(a):
    """Name, seconds, command and whether it needs a GPU; the most important first."""
    bench = [a.bench]
    call = [a.pore, "bench", "basecall", "--json", "--rounds", str(a.rounds), "--samples", str(a.samples), "--scaling=false"]
    yield "card", 15, [*bench, "card"], True
    yield "driver", 10, ["nvidia-smi", "--query-gpu=name,driver_version,power.limit,clocks.max.sm,clocks.max.mem", "--format=csv,noheader"], True
    yield "copies", 20, [*bench, "copies"], True
    yield "l2", 15, [*bench, "l2"], True
    for width in (256, 112, 384):
        yield f"kernel lstm {width}", 25, [*bench, "lstm", str(width), "64,512,2048,4096,8448"], True
    for width, scores in ((256, 1024), (112, 256), (384, 1024)):
        yield f"kernel head {width} to {scores}", 25, [*bench, "head", str(width), str(scores), "46080,760320,3041280"], True
    for width, stride in ((256, 5), (112, 6), (384, 6)):
        yield f"kernel stem {width}", 25, [*bench, "stem", str(width), str(stride), "64,1056,4224"], True
    for bases in (4, 3, 5):
        yield f"kernel crf {4**bases}", 25, [*bench, "crf", str(bases), "64,1056,4224" if bases < 5 else "64,1056"], True
    for beam in (5, 32):
        yield f"kernel ctc beam {beam}", 25, [*bench, "ctc", str(beam), "64,1056,4224"], True
    yield "torch", 60, [a.python, str(HERE / "torch_lstm.py")], True
    for model in a.models:
        name = pathlib.Path(model).name
        if a.device != "cpu":
            for batch in a.batches:
                yield f"gpu {name} {batch}", 45, [*call, "--model", model, "--device", a.device, "--precision", "fp16", "--batch", str(batch), "--sweep=false", a.signal], True
            yield f"agreement {name}", 60, [a.pore, "bench", "agreement", "--json", "--least-identity", "0", "--least-identical", "0", "--least-identity-scores", "0", "--samples", str(a.samples), "--model", model, "--device", a.device, a.signal], True
        yield f"cpu {name}", 60, [*call, "--model", model, "--device", "cpu", "--sweep=false", a.signal], False
    yield "racecheck", 60, [shutil.which("compute-sanitizer") or "compute-sanitizer", "--tool", "racecheck", *bench, "small"], True
    yield "memcheck", 60, [shutil.which("compute-sanitizer") or "compute-sanitizer", "--tool", "memcheck", *bench, "small"], True
    yield "ncu", 60, [shutil.which("ncu") or "ncu", "--clock-control", "none", "--csv", "--metrics", "sm__throughput.avg.pct_of_peak_sustained_elapsed,lts__t_bytes.sum.per_second,sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", *bench, "lstm", "256", "8448"], True


def measured(command, seconds):
    """What a command gives: its lines of JSON, or its text; and what is wrong."""
    began = time.monotonic()
    energy = joules()
    out = {"command": " ".join(pathlib.Path(w).name if os.sep in w else w for w in command)}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, cwd=ROOT, check=False)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            out["error"] = lines[-1] if lines else f"it ended with {done.returncode}"
        text = done.stdout
    except subprocess.TimeoutExpired as e:
        out["error"] = f"not done after {seconds:.0f} s"
        text = e.stdout or ""
        if isinstance(text, bytes):
            text = text.decode(errors="replace")
    except OSError as e:
        out["error"] = f"{pathlib.Path(command[0]).name}: {e.strerror}"
        text = ""
    rows, rest = objects(text), []
    if rows is None:
        rows = []
        for line in text.splitlines():
            if (row := objects(line)) is not None:
                rows += row
            else:
                rest.append(line)
    if rows:
        out["rows"] = rows
    if rest:
        out["text"] = rest[-40:]
    out["seconds"] = round(time.monotonic() - began, 1)
    if energy is not None and (after := joules()) is not None and after > energy:
        out["cpu_watts"] = round((after - energy) / (time.monotonic() - began), 1)
    return out


def objects(text):
    """A list of the JSON object that a text is; None if it is something else, as a number by itself is."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return [value] if isinstance(value, dict) else None


def joules():
    """What the processors have taken so far, by their own counters; None where they tell nobody."""
    total = None
    for counter in pathlib.Path("/sys/class/powercap").glob("intel-rapl:?/energy_uj"):
        try:
            total = (total or 0) + int(counter.read_text()) / 1e6
        except OSError:
            return None
    return total


def processor():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def write(path, result):
    partial = pathlib.Path(f"{path}.partial")
    partial.write_text(json.dumps(result, indent=1) + "\n")
    partial.replace(path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cuda:0")
    p.add_argument("--out", default=str(ROOT / "docs/measured/gpu.json"))
    p.add_argument("--limit", type=float, default=420, help="seconds, for all of it")
    p.add_argument("--pore", default=str(ROOT / "bin/pore"))
    p.add_argument("--bench", default=str(ROOT / ".deps/kernels/bench"), help="what make kernels builds beside the operators")
    p.add_argument("--python", default=sys.executable, help="an interpreter that has PyTorch")
    p.add_argument("--signal", default=str(ROOT / "testdata/lambda/reads.pod5"))
    p.add_argument("--models", nargs="+")
    p.add_argument("--batches", nargs="+", type=int, default=[2048, 4096])
    p.add_argument("--samples", type=int)
    p.add_argument("--rounds", type=int)
    a = p.parse_args()
    little = a.device == "cpu"
    a.models = a.models or (["r9.4-fast"] if little else ["r9.4-hac", "r9.4-fast"])
    a.samples = a.samples or (1 if little else 2_000_000)
    a.rounds = a.rounds or (1 if little else 2)
    kernels = pathlib.Path(a.bench).parent / "libporestream_ops.so"
    if kernels.is_file():
        os.environ.setdefault("PORESTREAM_KERNELS", str(kernels))
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

    ends = time.monotonic() + a.limit
    result = {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "device": a.device,
        "processor": processor(),
        "cores": os.cpu_count(),
        "program": measured([a.pore, "version"], 20).get("text", ["unknown"])[0],
        "recording": pathlib.Path(a.signal).name,
        "sections": {},
    }
    failed = []
    for name, seconds, command, gpu in sections(a):
        left = ends - time.monotonic()
        try:
            one = measured(command, min(seconds, left)) if left > 2 else {"error": f"no time was left of {a.limit:.0f} s"}
        except Exception as e:  # whatever it is, the others are measured
            one = {"error": f"{type(e).__name__}: {e}"}
        result["sections"][name] = one
        write(a.out, result)
        if "error" in one:
            print(f"measure: {name}: {one['error']}", file=sys.stderr)
            if not (gpu and little):
                failed.append(name)
        else:
            print(f"measure: {name}: {one['seconds']} s", file=sys.stderr)
    if failed:
        sys.exit(f"measure: {len(failed)} sections failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
