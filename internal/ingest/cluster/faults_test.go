package cluster_test

import (
	"context"
	"testing"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

func cursorOf(t testing.TB, l *lab, run string, next uint64) stream.Out {
	t.Helper()
	value, err := stream.EncodeCursor(&streampb.Cursor{
		Run: run, Next: next, Digest: make([]byte, stream.CursorDigestLen), Owner: make([]byte, stream.CursorOwnerLen),
		Sample: "s", ChunkSamples: 4000, Partitions: partitions,
	})
	if err != nil {
		t.Fatal(err)
	}
	return stream.Out{Topic: l.topics.Cursors, Partition: stream.AnyPartition, Key: []byte(run), Value: value}
}

var _ = context.Background
