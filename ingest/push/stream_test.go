package push

import (
	"testing"

	"github.com/porestream/porestream/push/pushpb"
)

// TestRefusedIsNotDone: a stream of which something was refused doesn't end as if
// all were well, though everything before that is durable.
func TestRefusedIsNotDone(t *testing.T) {
	received := make(chan struct{})
	p := &pushing{run: new(run), acked: new(pushpb.Ack)}
	if p.done(received) {
		t.Error("done before the device has")
	}
	close(received)
	if !p.done(received) {
		t.Error("not done, and nothing is left to do")
	}
	if p.received = refuse(pushpb.Reason_REASON_TOO_BIG, "too big"); p.done(received) {
		t.Error("done, and the device was not told why")
	}
}
