package embedded

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// requests is a stream of requests with the correlation ids 1, 2, 3, ...
func requests(reqs ...kmsg.Request) []byte {
	var stream []byte
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))
	for i, r := range reqs {
		r.SetVersion(r.MaxVersion())
		stream = append(stream, format.AppendRequest(nil, r, int32(i+1))...)
	}
	return stream
}

func joinsIn(stream []byte, piece int) []int32 {
	var s joinScanner
	var found []int32
	for len(stream) > 0 {
		n := min(piece, len(stream))
		s.scan(stream[:n], func(correlation int32) { found = append(found, correlation) })
		stream = stream[n:]
	}
	return found
}

func TestJoinsAreFound(t *testing.T) {
	stream := requests(kmsg.NewPtrMetadataRequest(), kmsg.NewPtrJoinGroupRequest(), kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrSyncGroupRequest(),
		kmsg.NewPtrProduceRequest(), kmsg.NewPtrLeaveGroupRequest(), kmsg.NewPtrJoinGroupRequest())
	for piece := range len(stream) {
		assert.Equal(t, []int32{2, 4, 7}, joinsIn(stream, piece+1), "in pieces of %d bytes", piece+1)
	}
}

func FuzzJoinScanner(f *testing.F) {
	f.Add(requests(kmsg.NewPtrJoinGroupRequest(), kmsg.NewPtrFetchRequest(), kmsg.NewPtrSyncGroupRequest()), uint8(3))
	f.Add([]byte{0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 1}, uint8(5))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 11, 0, 0, 0, 0, 0, 1, 2}, uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		assert.Equal(t, joinsIn(stream, max(1, len(stream))), joinsIn(stream, 1+int(piece)))
	})
}
