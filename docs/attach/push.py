"""Pushes a made-up read to `ingest serve`: python push.py HOST:PORT [TOKEN [CA.pem]]

Needs grpcio, and the stubs of the contract:
python -m grpc_tools.protoc -I push/pushpb --python_out=. --grpc_python_out=. push.proto
"""
import array, itertools, queue, sys, time
import grpc
import push_pb2 as pb, push_pb2_grpc

target, token, ca = (sys.argv[1:] + ["", ""])[:3]
metadata = [("authorization", "Bearer " + token)] if token else []
signal = array.array("h", [400 + i * 37 % 200 for i in range(20_000)])  # little endian, as on most machines
chunks = [pb.Chunk(sequence=n, channel=1, read_id="example-read", number=n, first_sample=n * 4000, sample_count=4000,
                   int16=signal[n * 4000:(n + 1) * 4000].tobytes(), calibration_scale=0.2, end_of_read=n == 4) for n in range(5)]
run = pb.Run(id="example-run", sample="example", sample_rate=4000)
keep = chunks  # what is not acknowledged; a real device drops what is

for attempt in itertools.count():
    channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(open(ca, "rb").read())) if ca else grpc.insecure_channel(target)
    try:
        api, requests = push_pb2_grpc.PushStub(channel), queue.SimpleQueue()
        api.Register(pb.RegisterRequest(run=run), metadata=metadata)
        requests.put(pb.PushRequest(open=pb.Open(run=run.id, session=b"example")))
        for answer in api.Push(iter(requests.get, None), metadata=metadata):
            if answer.HasField("opened"):  # go on where the server is
                for c in keep:
                    if c.sequence >= answer.opened.next:
                        requests.put(pb.PushRequest(chunk=c))
                requests.put(pb.PushRequest(end=pb.End(chunks=len(chunks))))
            ack = answer.opened.ack if answer.HasField("opened") else answer.ack
            keep = [c for c in keep if c.sequence >= ack.durable]
            if ack.ended:
                sys.exit(print("the run is in Kafka:", ack.committed, "chunks"))
    except grpc.RpcError as err:
        if err.code() != grpc.StatusCode.UNAVAILABLE or attempt == 100:
            sys.exit(f"{err.code().name}: {err.details()}")
    time.sleep(0.2)
