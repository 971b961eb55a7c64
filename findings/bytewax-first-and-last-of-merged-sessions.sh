#!/usr/bin/env bash
# One would guess: join_window of bytewax with insert_mode "first" joins the first value of each side in a window, and with "last", the default,
# the last one (documentation of JoinInsertMode), for any windower, and with ordered=False as well where values of a side come in order.
# What happens: when a late value closes the gap between two sessions, they become one (documentation of SessionWindower), and each side on which
# both have a value gets the other one: "last" gives what the earlier session had, "first" what the later one had. In sessions that never were
# two, all is right, and so is "product", a fold, and any mode with ordered=True, which sorts values before sessions see them and says
# of itself that it costs time and latency. Whether a result is off depends on which value came late, not on the values. No warning.
# bytewax 0.21.1.
# Who is hurt: who joins a stream of states (temperature, voltage, basecall model) with one of events of the same device by sessions: the
# result names the state before the last change as the current one, just for those devices whose messages were held up.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check bytewax==0.21.1
cat >try.py <<'PYTHON'
import random
from datetime import datetime, timedelta, timezone

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main

start = datetime(2026, 1, 1, tzinfo=timezone.utc)
GAP = 15

# Of each device two to five states, each 20 s behind the one before, and an event between each two of them: one session for who has seen all.
draw = random.Random(1)
devices = {f"device{i:03}": draw.randint(2, 5) for i in range(200)}
states = {d: [(20 * i, f"state at {20 * i} s") for i in range(n)] for d, n in devices.items()}
events = {d: [(20 * i + 10, f"event at {20 * i + 10} s") for i in range(n - 1)] for d, n in devices.items()}
meant = {mode: {d: (states[d][i][1], events[d][i][1]) for d in devices} for mode, i in (("first", 0), ("last", -1))}


def arrivals(late):
    """Messages of all devices, each side in order; events of some devices come when all its states are there."""
    held = {d for d in devices if draw.random() < late}
    for d in devices:
        both = [(t, "states", v) for t, v in states[d]] + [(t, "events", v) for t, v in events[d]]
        both.sort(key=lambda m: (m[1] == "events", m[0]) if d in held else m[0])
        yield from ((d, message) for message in both)


def run(messages, mode, ordered):
    out = []
    flow = Dataflow("flow")
    both = op.input("in", flow, TestingSource(messages, batch_size=1))
    clock = win.EventClock(lambda m: start + timedelta(seconds=m[0]), wait_for_system_duration=timedelta(hours=1))
    sessions = win.SessionWindower(gap=timedelta(seconds=GAP))
    sides = [op.filter(side, both, lambda km, side=side: km[1][1] == side) for side in ("states", "events")]
    joined = win.join_window("join", clock, sessions, *sides, insert_mode=mode, emit_mode="final", ordered=ordered)
    too_late = []
    op.output("late", joined.late, TestingSink(too_late))
    op.output("out", joined.down, TestingSink(out))
    run_main(flow)
    assert not too_late and len(out) == len(devices)
    return {d: tuple(m[2] for m in row) for d, (_window, row) in out}


shown = None
for late in (0, 0.3):
    messages = list(arrivals(late))
    for ordered in (True, False):
        for mode in ("first", "last"):
            got = run(messages, mode, ordered)
            off = [d for d in devices if got[d] != meant[mode][d]]
            other = [d for d in off if got[d][0] == meant["last" if mode == "first" else "first"][d][0]]
            told = f"{'some events late' if late else 'none late'}, ordered={ordered}, {mode!r}: {len(off)} of {len(devices)} devices off"
            print(told + (f", {len(other)} with the other end's state" if off else ""))
            if off and mode == "last":
                d = min(off)
                shown = f"{d}: {len(states[d])} states, the last {meant[mode][d]}, joined as last {got[d]}"
print(shown)
PYTHON
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
none late, ordered=True, 'first': 0 of 200 devices off
none late, ordered=True, 'last': 0 of 200 devices off
none late, ordered=False, 'first': 0 of 200 devices off
none late, ordered=False, 'last': 0 of 200 devices off
some events late, ordered=True, 'first': 0 of 200 devices off
some events late, ordered=True, 'last': 0 of 200 devices off
some events late, ordered=False, 'first': 61 of 200 devices off, 61 with the other end's state
some events late, ordered=False, 'last': 61 of 200 devices off, 61 with the other end's state
device001: 2 states, the last ('state at 20 s', 'event at 10 s'), joined as last ('state at 0 s', 'event at 10 s')
EXPECTED
if ! diff expected seen; then
	echo "bytewax behaves otherwise by now" >&2
	exit 1
fi
