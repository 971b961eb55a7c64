// Package push sends the signal of a device to Porestream: to `ingest serve`, over
// gRPC, by the contract in pushpb/push.proto.
//
//	client, err := push.Dial(push.Config{Target: "ingest:9102", TLS: &tls.Config{}, Token: token})
//	run, err := client.Open(ctx, push.RunInfo{ID: id, SampleRate: 4000})
//	err = run.Send(ctx, push.Chunk{Channel: 1, ReadID: read, Samples: samples})
//	err = run.End(ctx)
//
// What the server has not acknowledged is kept in memory, up to a limit. When the
// connection breaks the run goes on by itself where the server says, and nothing
// is doubled or left out; while memory is full, Send waits.
package push
