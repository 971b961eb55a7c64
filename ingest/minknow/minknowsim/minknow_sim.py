#!/usr/bin/env python3
"""A MinKNOW that plays recorded reads, for testing clients of its live interface.

    python minknow_sim.py reads.pod5 --channels 64 --pace 1 --drop 0.05

It is built on the stubs of the package minknow-api, so the wire is MinKNOW's own.
README.md tells what it does and what it can be told on standard input.
"""

import argparse
import base64
import bisect
import concurrent.futures
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import grpc
import numpy
from minknow_api import acquisition_pb2, acquisition_pb2_grpc
from minknow_api import analysis_configuration_pb2, analysis_configuration_pb2_grpc
from minknow_api import data_pb2, data_pb2_grpc
from minknow_api import device_pb2, device_pb2_grpc
from minknow_api import instance_pb2, instance_pb2_grpc
from minknow_api import manager_pb2, manager_pb2_grpc
from minknow_api import protocol_pb2, protocol_pb2_grpc
from minknow_api.read_end_reason_pb2 import ReadEndReason

PORE, STRAND, ADAPTER = 80, 83, 65
CLASSES = {PORE: "pore", STRAND: "strand", ADAPTER: "adapter"}
OPEN_PORE = 220.0  # picoamperes
DIGITISATION = 8192
END_REASONS = {
    "mux_change": ReadEndReason.MuxChange,
    "unblock_mux_change": ReadEndReason.UnblockMuxChange,
    "data_service_unblock_mux_change": ReadEndReason.DataServiceUnblockMuxChange,
    "signal_positive": ReadEndReason.SignalPositive,
    "signal_negative": ReadEndReason.SignalNegative,
}


class Read:
    def __init__(self, id, samples, offset, scale, rate, end_reason):
        self.id, self.samples, self.offset, self.scale = id, samples, offset, scale
        self.rate, self.end_reason = rate, end_reason


def load(path):
    """Reads a POD5 file, or lines of JSON with a read each."""
    if path.endswith(".pod5"):
        import pod5

        with pod5.Reader(path) as reader:
            return [
                Read(str(r.read_id), r.signal, r.calibration.offset, r.calibration.scale,
                     r.run_info.sample_rate, r.end_reason.name)
                for r in sorted(reader.reads(), key=lambda r: r.start_sample)
            ]
    with open(path, encoding="ascii") as lines:
        return [
            Read(r["id"], numpy.frombuffer(base64.b64decode(r["samples"]), "<i2"),
                 r["offset"], r["scale"], r["rate"], r["end_reason"])
            for r in map(json.loads, lines)
        ]


class Stretch:
    """A part of a channel's signal that MinKNOW takes for one read."""

    def __init__(self, id, start, samples, kind, end_reason, source=None):
        self.id, self.start, self.samples, self.kind = id, start, samples, kind
        self.end_reason = end_reason
        self.source = source  # the recorded read
        self.planned = len(samples)

    @property
    def end(self):
        return self.start + len(self.samples)


class Run:
    """One acquisition: what each channel gives, without a gap."""

    def __init__(self, reads, args, number):
        self.id = hashlib.sha256(f"{args.seed}/{args.name}/{number}".encode()).hexdigest()[:40]
        self.args, self.reads, self.number = args, reads, number
        self.rate = reads[0].rate
        self.offsets = [10.0] * args.channels
        self.scale = reads[0].scale
        self.started = None  # when sample 0 was taken
        self.paused = None  # since when
        self.state = acquisition_pb2.ACQUISITION_RUNNING
        self.phase = protocol_pb2.PHASE_SEQUENCING
        self.stop_reason = acquisition_pb2.STOPPED_NOT_SET
        self.frozen = False
        self.dice = random.Random(args.seed * 1000 + number)
        self.noise = numpy.random.default_rng(args.seed)
        self.levels = {}  # of recorded reads, by the run's calibration
        self.channels = [[] for _ in range(args.channels)]
        self.length = int(args.length * self.rate)  # 0: until all reads are played

        for c in range(args.channels):
            self.pore(c)
        if self.length:
            for c in range(args.channels):
                self.fill(c)
            self.end = self.length
        else:
            for r in reads:
                c = min(range(args.channels), key=lambda c: (self.free(c), c))
                self.strand(c, r, r.id if number == 0 else self.fresh())
                self.pore(c)
            for c in range(args.channels):
                self.pore(c, last=True)
            self.end = max(map(self.free, range(args.channels)))
        self.chunks = []  # every chunk of the run, by when it is complete
        for c in range(args.channels):
            self.cut(c, 0)
        self.chunks.sort(key=lambda chunk: chunk[:2])

    def free(self, c):
        return self.channels[c][-1].end if self.channels[c] else 0

    def fresh(self):
        return str(uuid.UUID(int=self.dice.getrandbits(128)))

    def pore(self, c, last=False):
        n = int(self.rate * self.dice.uniform(1.0, 2.0) * (2 if last else 1))
        level = OPEN_PORE / self.scale - self.offsets[c]
        samples = self.noise.normal(level, 5, n).astype("<i2")
        self.channels[c].append(Stretch(self.fresh(), self.free(c), samples, PORE, ReadEndReason.Unknown))

    def strand(self, c, r, id):
        key = (r.id, self.offsets[c])
        if key not in self.levels:
            pa = (r.samples.astype("f8") + r.offset) * r.scale
            self.levels[key] = numpy.rint(pa / self.scale - self.offsets[c]).astype("<i2")
        reason = END_REASONS.get(r.end_reason, ReadEndReason.Unknown)
        self.channels[c].append(Stretch(id, self.free(c), self.levels[key], STRAND, reason, r.id))

    def fill(self, c):
        """Goes on with reads that are drawn anew until the run's end."""
        while self.free(c) < self.length:
            self.strand(c, self.dice.choice(self.reads), self.fresh())
            self.pore(c)

    def cut(self, c, after):
        """Cuts what a channel gives after a sample into chunks."""
        size = int(self.args.chunk * self.rate)
        before = ReadEndReason.Unknown
        for s in self.channels[c]:
            for at in range(s.start, s.end, size):
                end = min(at + size, s.end)
                if end <= after or end > self.end:
                    continue
                # Nothing could ever show that a channel's last chunk is missing.
                last = s is self.channels[c][-1] and end == s.end
                dropped = not last and self.dice.random() < self.args.drop
                self.chunks.append((end, c + 1, s, at, before, dropped))
            before = s.end_reason

    def current(self, channel, now):
        """The stretch that a channel gives now, or none."""
        if not 1 <= channel <= len(self.channels):
            return None
        return next((s for s in reversed(self.channels[channel - 1]) if s.start <= now < s.end), None)

    def state_of(self, channel, now):
        """What MinKNOW would call a channel's state now."""
        if channel in self.args.dead:
            return self.args.dead[channel]
        s = self.current(channel, now)
        if s is None:
            return "unclassified"
        if s.kind == PORE:
            return "pore"
        # The adapter comes first.
        return "adapter" if now - s.start < self.rate // 4 else "strand"

    def unblock(self, channel, s, now):
        """Ends a stretch; what follows on its channel follows at once."""
        c = channel - 1
        known = bisect.bisect_right(self.chunks, now, key=lambda chunk: chunk[0])
        # Behind everything that a client may have been told of.
        s.samples = s.samples[:now + 1 - s.start]
        s.end_reason = ReadEndReason.DataServiceUnblockMuxChange
        later = self.channels[c][self.channels[c].index(s) + 1:]
        at = s.end
        for stretch in later:
            stretch.start, at = at, at + len(stretch.samples)
        if self.length:
            self.fill(c)
        rest = [chunk for chunk in self.chunks[known:] if chunk[1] != channel]
        del self.chunks[known:]
        self.cut(c, now)
        self.chunks[known:] = sorted(rest + self.chunks[known:], key=lambda chunk: chunk[:2])

    def info(self):
        return acquisition_pb2.AcquisitionRunInfo(
            run_id=self.id, state=self.state, stop_reason=self.stop_reason,
            config_summary=acquisition_pb2.AcquisitionConfigSummary(
                purpose=acquisition_pb2.SEQUENCING, sample_rate=self.rate))


class Position:
    """A flow cell position: its runs, one after the other."""

    def __init__(self, name, reads, args):
        self.name, self.reads, self.args = name, reads, args
        self.args.name = name
        self.changed = threading.Condition()
        self.number = 0
        self.run = Run(reads, args, 0)
        self.cut = 0  # times that all streams were broken off
        self.dropped, self.sent = [], 0
        self.actions = []  # what clients have asked for
        self.server = self.port = None
        self.stopping = False
        self.strays = 0  # chunks to come of a time that is past
        self.phases_open = threading.Semaphore(8)

    # What time it is, in samples of the run. self.changed is held.
    def now(self):
        run = self.run
        if run.started is None:
            return -1
        until = run.paused if run.paused is not None else time.monotonic()
        return int((until - run.started) * self.args.pace * run.rate)

    def update(self, what):
        with self.changed:
            what()
            self.changed.notify_all()

    def active(self):
        return self.run.state in (acquisition_pb2.ACQUISITION_RUNNING, acquisition_pb2.ACQUISITION_PAUSED)

    def pause(self):
        self.run.paused = time.monotonic()
        self.run.state = acquisition_pb2.ACQUISITION_PAUSED
        self.run.phase = protocol_pb2.PHASE_PAUSED

    def resume(self):
        self.run.started += time.monotonic() - self.run.paused
        self.run.paused = None
        self.run.state = acquisition_pb2.ACQUISITION_RUNNING
        self.run.phase = protocol_pb2.PHASE_SEQUENCING

    def finish(self):
        self.run.state = acquisition_pb2.ACQUISITION_FINISHING
        self.run.stop_reason = acquisition_pb2.STOPPED_PROTOCOL_ENDED
        self.run.phase = protocol_pb2.PHASE_COMPLETED

    def layout(self):
        """What is played when. Clocks of the wall and of the machine are read together."""
        with self.changed:
            run = self.run
            started = 0 if run.started is None else time.time() - (time.monotonic() - run.started)
            strands = [{"id": s.id, "source": s.source, "channel": c, "start": s.start, "end": min(s.end, run.end)}
                       for c, stretches in enumerate(run.channels, 1) for s in stretches
                       if s.kind == STRAND and s.start < run.end]
            return {"run": run.id, "rate": run.rate, "pace": self.args.pace, "started": started, "strands": strands}

    def begin(self):
        self.number += 1
        self.run = Run(self.reads, self.args, self.number)


class Device(device_pb2_grpc.DeviceServiceServicer):
    def __init__(self, position):
        self.position = position

    def get_device_info(self, request, context):
        return device_pb2.GetDeviceInfoResponse(
            device_id=self.position.name, is_simulated=True, digitisation=DIGITISATION,
            max_channel_count=self.position.args.channels, max_wells_per_channel=4)

    def get_flow_cell_info(self, request, context):
        return device_pb2.GetFlowCellInfoResponse(
            has_flow_cell=True, channel_count=self.position.args.channels, wells_per_channel=4,
            flow_cell_id=self.position.args.flow_cell, product_code="FLO-MIN106")

    def get_calibration(self, request, context):
        n = request.last_channel - request.first_channel + 1
        run = self.position.run
        return device_pb2.GetCalibrationResponse(
            digitisation=DIGITISATION, has_calibration=True, offsets=run.offsets[:n],
            pa_ranges=[run.scale * DIGITISATION] * n)

    def get_sample_rate(self, request, context):
        return device_pb2.GetSampleRateResponse(sample_rate=self.position.run.rate)


class Acquisition(acquisition_pb2_grpc.AcquisitionServiceServicer):
    def __init__(self, position):
        self.position = position

    def get_current_acquisition_run(self, request, context):
        with self.position.changed:
            if not self.position.active():
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no acquisition is running")
            return self.position.run.info()

    def watch_current_acquisition_run(self, request, context):
        yield from watch(self.position, context, lambda: self.position.run.info())


class Protocol(protocol_pb2_grpc.ProtocolServiceServicer):
    def __init__(self, position):
        self.position = position

    def info(self):
        args, user = self.position.args, protocol_pb2.ProtocolRunUserInfo()
        user.sample_id.value = args.sample
        user.protocol_group_id.value = args.experiment
        user.kit_info.sequencing_kit = args.kit
        return protocol_pb2.ProtocolRunInfo(
            run_id="protocol-" + self.position.run.id, user_info=user,
            phase=self.position.run.phase, acquisition_run_ids=[self.position.run.id])

    def get_current_protocol_run(self, request, context):
        with self.position.changed:
            return protocol_pb2.GetCurrentProtocolRunResponse(run_info=self.info())

    def watch_current_protocol_run(self, request, context):
        yield from watch(self.position, context, self.info)


def watch(position, context, info):
    """Yields what info returns, whenever that changes."""
    last, cut = None, position.cut
    while context.is_active() and not position.stopping:
        with position.changed:
            if position.cut != cut:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the connection is cut")
            news = info()
            if news == last:
                position.changed.wait(0.1)
                continue
        last = news
        yield news


class Analysis(analysis_configuration_pb2_grpc.AnalysisConfigurationServiceServicer):
    def __init__(self, position):
        self.position = position

    def get_analysis_configuration(self, request, context):
        m = analysis_configuration_pb2.AnalysisConfiguration()
        m.read_detection.break_reads_after_seconds.value = self.position.args.chunk
        return m

    def get_read_classifications(self, request, context):
        return analysis_configuration_pb2.GetReadClassificationsResponse(read_classifications=CLASSES)


class Data(data_pb2_grpc.DataServiceServicer):
    def __init__(self, position):
        self.position = position

    def get_data_types(self, request, context):
        Type = data_pb2.GetDataTypesResponse.DataType
        return data_pb2.GetDataTypesResponse(uncalibrated_signal=Type(type=Type.SIGNED_INTEGER, size=2))

    def get_live_reads(self, requests, context):
        p = self.position
        setup = next(requests).setup
        if setup.raw_data_type != data_pb2.GetLiveReadsRequest.UNCALIBRATED:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "only uncalibrated signal is simulated")
        accepted = set(setup.accepted_first_chunk_classifications)
        with p.changed:
            run, cut = p.run, p.cut
            if not p.active():
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no acquisition is running")
            if run.started is None:
                run.started = time.monotonic()  # a run's clock starts with its first listener
            # Chunks that were complete before are not sent again.
            at = bisect.bisect_right(run.chunks, p.now(), key=lambda chunk: chunk[0])
        stopped, answers, news = set(), [], threading.Event()
        threading.Thread(target=self.act, args=(requests, run, setup, stopped, answers, news), daemon=True).start()
        while context.is_active() and not p.stopping:
            news.clear()
            with p.changed:
                if p.cut != cut:
                    context.abort(grpc.StatusCode.UNAVAILABLE, "the connection is cut")
                if p.run is not run or not p.active():
                    context.abort(grpc.StatusCode.ABORTED, "acquisition has stopped")
                now = p.now()
                if now > run.end and at == len(run.chunks):
                    p.finish()
                    p.changed.notify_all()
                    context.abort(grpc.StatusCode.ABORTED, "acquisition has stopped")
                until = bisect.bisect_right(run.chunks, now, lo=at, key=lambda chunk: chunk[0])
                due, at = run.chunks[at:until], until
                # What was asked for in the meantime comes too late for these.
                due = [(chunk, chunk[2].samples, chunk[2].start) for chunk in due]
                said, answers[:] = answers[:], []
            if said:
                yield data_pb2.GetLiveReadsResponse(samples_since_start=max(now, 0), action_responses=said)
            batch = {}
            for (end, channel, s, start, before, dropped), samples, origin in due:
                if accepted and s.kind not in accepted or s.id in stopped:
                    continue
                if dropped:
                    p.dropped.append({"channel": channel, "read": s.id, "strand": s.kind == STRAND,
                                      "read_start": origin, "start": start, "end": end})
                    continue
                if channel in batch:
                    yield self.response(batch)
                    batch = {}
                batch[channel] = data_pb2.GetLiveReadsResponse.ReadData(
                    id=s.id, start_sample=origin, chunk_start_sample=start, chunk_length=end - start,
                    chunk_classifications=[s.kind], previous_read_end_reason=before,
                    raw_data=samples[start - origin:end - origin].tobytes())
            if p.strays and now > run.rate * self.position.args.chunk * 2:
                p.strays -= 1
                yield data_pb2.GetLiveReadsResponse(channels={1: data_pb2.GetLiveReadsResponse.ReadData(
                    id="stray", start_sample=0, chunk_start_sample=0, chunk_length=10, chunk_classifications=[STRAND], raw_data=bytes(20))})
            # An empty response tells the time.
            yield self.response(batch) if batch else data_pb2.GetLiveReadsResponse(samples_since_start=max(now, 0))
            news.wait(p.args.interval)

    def get_channel_states(self, request, context):
        """All channels first, as many messages as they need, then those that change."""
        p = self.position
        if p.args.states == "none":
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        if p.args.states == "refused":
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "missing permissions")
        State = data_pb2.GetChannelStatesResponse.ChannelStateData
        with p.changed:
            run, cut, last = p.run, p.cut, {}
        while context.is_active() and not p.stopping:
            with p.changed:
                if p.cut != cut:
                    context.abort(grpc.StatusCode.UNAVAILABLE, "the connection is cut")
                if p.run is not run or not p.active():
                    context.abort(grpc.StatusCode.ABORTED, "acquisition has stopped")
                now = max(p.now(), 0)
                states = {c: run.state_of(c, now) for c in range(request.first_channel, request.last_channel + 1)}
            news = [State(channel=c, state_name=name) for c, name in states.items() if last.get(c) != name]
            last = states
            for at in range(0, len(news), 256):
                yield data_pb2.GetChannelStatesResponse(channel_states=news[at:at + 256])
            time.sleep(p.args.interval)

    def act(self, requests, run, setup, stopped, answers, news):
        """Does what a client asks for, as long as it does."""
        p, Response = self.position, data_pb2.GetLiveReadsResponse.ActionResponse
        limit = setup.max_unblock_read_length_samples or int(setup.max_unblock_read_length_seconds * run.rate)
        try:
            for request in requests:
                for a in request.actions.actions:
                    with p.changed:
                        now = p.now()
                        s = run.current(a.channel, now) if p.run is run and p.active() else None
                        kind = a.WhichOneof("action")
                        if s is None or s.id != a.id:
                            said = Response.FAILED_READ_FINISHED
                        elif kind == "stop_further_data":
                            said = Response.SUCCESS
                            stopped.add(s.id)
                        elif limit and now - s.start > limit:
                            said = Response.FAILED_READ_TOO_LONG
                        else:
                            said = Response.SUCCESS
                            run.unblock(a.channel, s, now)
                        mine = s is not None and s.id == a.id
                        p.actions.append({
                            "id": a.action_id, "channel": a.channel, "read": a.id, "kind": kind, "answer": Response.Response.Name(said), "time": time.time(),
                            "source": s.source if mine else None, "progress": now - s.start if mine else 0, "of": s.planned if mine else 0})
                        answers.append(Response(action_id=a.action_id, response=said))
                    news.set()
        except grpc.RpcError:
            pass  # the client has gone

    def response(self, batch):
        self.position.sent += len(batch)
        first = min(c.chunk_start_sample for c in batch.values())
        return data_pb2.GetLiveReadsResponse(
            samples_since_start=first, seconds_since_start=first / self.position.run.rate, channels=batch)


class Instance(instance_pb2_grpc.InstanceServiceServicer):
    def get_version_info(self, request, context):
        m = instance_pb2.GetVersionInfoResponse()
        m.minknow.major, m.minknow.minor, m.minknow.full = 6, 10, "6.10.3 (simulated)"
        return m


class Manager(manager_pb2_grpc.ManagerServiceServicer):
    def __init__(self, sim):
        self.sim = sim

    def flow_cell_positions(self, request, context):
        m = manager_pb2.FlowCellPositionsResponse(total_count=len(self.sim.positions))
        for p in self.sim.positions.values():
            m.positions.add(name=p.name, state=manager_pb2.FlowCellPosition.STATE_RUNNING,
                            rpc_ports=manager_pb2.FlowCellPosition.RpcPorts(secure=p.port), is_simulated=True)
        yield m

    def local_authentication_token_path(self, request, context):
        return manager_pb2.LocalAuthenticationTokenPathResponse(path=self.sim.args.local_token or "")

    def get_version_info(self, request, context):
        return Instance().get_version_info(request, context)


class Guard(grpc.ServerInterceptor):
    """Lets nobody in without the token, except to ask where it is."""

    def __init__(self, sim):
        self.sim = sim

    def intercept_service(self, continuation, details):
        given = dict(details.invocation_metadata).get("local-auth")
        open_to_all = details.method.endswith("/local_authentication_token_path")
        if self.sim.token is None or open_to_all or given == self.sim.token:
            return continuation(details)

        def refuse(request, context):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is not valid")

        return grpc.unary_unary_rpc_method_handler(refuse)


class Simulator:
    def __init__(self, args):
        self.args, self.token = args, args.token
        self.certs = args.certs or make_certificates()
        reads = load(args.reads)[:args.limit]
        self.positions = {}
        for name in args.positions.split(","):
            p = Position(name, reads, argparse.Namespace(**vars(args)))
            self.positions[name] = p
            self.serve(p)
        self.manager, self.port = self.listen(
            args.port, lambda s: manager_pb2_grpc.add_ManagerServiceServicer_to_server(Manager(self), s))

    def serve(self, p):
        def add(server):
            device_pb2_grpc.add_DeviceServiceServicer_to_server(Device(p), server)
            acquisition_pb2_grpc.add_AcquisitionServiceServicer_to_server(Acquisition(p), server)
            protocol_pb2_grpc.add_ProtocolServiceServicer_to_server(Protocol(p), server)
            if not self.args.old:
                analysis_configuration_pb2_grpc.add_AnalysisConfigurationServiceServicer_to_server(Analysis(p), server)
            data_pb2_grpc.add_DataServiceServicer_to_server(Data(p), server)
            instance_pb2_grpc.add_InstanceServiceServicer_to_server(Instance(), server)

        p.stopping = False
        p.server, p.port = self.listen(0, add)

    def listen(self, port, add):
        server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(max_workers=32), interceptors=[Guard(self)],
            options=[("grpc.so_reuseport", 0), ("grpc.max_send_message_length", 16 << 20)])
        add(server)

        def read(name):
            with open(os.path.join(self.certs, name), "rb") as f:
                return f.read()

        credentials = grpc.ssl_server_credentials(
            [(read("server.key"), read("server.crt"))], read("ca.crt"), self.args.client_certificates)
        bound = server.add_secure_port(f"{self.args.host}:{port}", credentials)
        server.start()
        return server, bound

    def command(self, words):
        """Does what a line on standard input says, for all positions."""
        for p in self.positions.values():
            match words:
                case ["cut"]:
                    p.update(lambda: setattr(p, "cut", p.cut + 1))
                case ["restart"]:  # the position's software, on another port
                    p.stopping = True
                    p.server.stop(0).wait()
                    self.serve(p)
                case ["token", token]:
                    self.token = token
                case ["pause"]:
                    p.update(p.pause)
                case ["resume"]:
                    p.update(p.resume)
                case ["muxscan"]:
                    p.update(lambda: setattr(p.run, "phase", protocol_pb2.PHASE_MUX_SCAN))
                case ["sequence"]:
                    p.update(lambda: setattr(p.run, "phase", protocol_pb2.PHASE_SEQUENCING))
                case ["end"]:
                    p.update(p.finish)
                case ["run"]:
                    p.update(p.begin)
                case ["sample", name]:
                    p.args.sample = name
                case ["rewind"]:
                    p.strays += 1
                case ["layout"]:
                    print(json.dumps({"position": p.name, **p.layout()}), flush=True)
                case ["actions"]:
                    with p.changed:
                        print(json.dumps({"position": p.name, "run": p.run.id, "actions": p.actions}), flush=True)
                case ["report"]:
                    print(json.dumps({"position": p.name, "run": p.run.id, "dropped": p.dropped, "sent": p.sent}), flush=True)
                case _:
                    print(json.dumps({"error": f"unknown command {words}"}), flush=True)


def make_certificates():
    """Makes a CA and a server certificate as MinKNOW has them."""
    folder = tempfile.mkdtemp(prefix="minknow-sim-")

    def openssl(*command):
        subprocess.run(["openssl", *command], check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=simulated MinKNOW")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    with open(os.path.join(folder, "names"), "w", encoding="ascii") as f:
        f.write("subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", "names", "-out", "server.crt")
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reads", help="POD5 file, or lines of JSON with a read each")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9501, help="of the manager; 0: any")
    parser.add_argument("--positions", default="MN00001", help="names, with commas between them")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--pace", type=float, default=1, help="speed by the recording's clock")
    parser.add_argument("--chunk", type=float, default=0.8, help="break_reads_after_seconds")
    parser.add_argument("--interval", type=float, default=0.1, help="seconds between responses")
    parser.add_argument("--drop", type=float, default=0, help="share of chunks that are not sent")
    parser.add_argument("--limit", type=int, help="number of reads")
    parser.add_argument("--length", type=float, default=0, help="seconds of the run, for which reads are drawn again and again; 0: each is played once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--token", help="that clients must show; none: everybody may")
    parser.add_argument("--local-token", help="path that is given for the local token")
    parser.add_argument("--certs", help="folder with ca.crt, server.crt, server.key; made if not given")
    parser.add_argument("--client-certificates", action="store_true", help="refuse clients without one of the CA")
    parser.add_argument("--old", action="store_true", help="lack a service, as MinKNOW of another version does")
    parser.add_argument("--states", choices=["told", "none", "refused"], default="told", help="of channels: whether clients can ask for them")
    parser.add_argument("--dead", default="", help="states that channels are said to be in for good: 3=saturated,7=no_pore")
    parser.add_argument("--sample", default="simulated")
    parser.add_argument("--experiment", default="simulation")
    parser.add_argument("--flow-cell", default="FAA00001")
    parser.add_argument("--kit", default="SQK-RAD004")
    args = parser.parse_args()
    args.dead = {int(c): name for c, name in (entry.split("=") for entry in args.dead.split(",") if entry)}
    sim = Simulator(args)
    print(json.dumps({"port": sim.port, "ca": os.path.join(sim.certs, "ca.crt")}), flush=True)
    for line in sys.stdin:
        if line.split():
            sim.command(line.split())
    if sys.stdin.isatty() or not args.port:
        os._exit(0)  # whoever started this has closed the line
    threading.Event().wait()


if __name__ == "__main__":
    main()
