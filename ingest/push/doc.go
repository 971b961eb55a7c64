// Package push takes runs from devices that push their signal over gRPC: the
// server side of push/pushpb/push.proto.
//
// A run's chunks are numbered by the device, and the chunk with number n is event
// n+1 of the run (package ingest counts its beginning as event 0). So the run's
// durable cursor is all that is needed to go on: a chunk below it is a repetition,
// and the device is never asked for one that was acknowledged. A device can be
// made to wait, so nothing is ever lost here: the server reads no faster than
// Kafka or the spool takes signal.
//
// order.go decides what may come next, and devices.go who may send it; both are
// pure. run.go writes one run, server.go speaks with the devices.
package push
