package push

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/stream"
)

// domain is that of the ErrorInfo in the status of refusals.
const domain = "push.porestream"

// refusal is why a device doesn't get what it asks for. It is answered as it is.
type refusal struct {
	reason  pushpb.Reason
	message string
	// metadata are details for programs: names to values.
	metadata map[string]string
}

func (r *refusal) Error() string { return r.message }

func refuse(reason pushpb.Reason, format string, args ...any) *refusal {
	return &refusal{reason: reason, message: fmt.Sprintf(format, args...)}
}

func (r *refusal) with(name, value string) *refusal {
	r.metadata = map[string]string{name: value}
	return r
}

// GRPCStatus makes gRPC answer with the code of the reason.
func (r *refusal) GRPCStatus() *status.Status {
	plain := status.New(code(r.reason), r.message)
	detailed, err := plain.WithDetails(&errdetails.ErrorInfo{Reason: reasonName(r.reason), Domain: domain, Metadata: r.metadata})
	if err != nil {
		return plain
	}
	return detailed
}

// reasonName is a reason without its prefix.
func reasonName(r pushpb.Reason) string { return strings.TrimPrefix(r.String(), "REASON_") }

// code is the gRPC status of a reason; the contract lists them.
func code(r pushpb.Reason) codes.Code {
	switch r {
	case pushpb.Reason_REASON_WRONG_TOKEN, pushpb.Reason_REASON_EXPIRED_TOKEN,
		pushpb.Reason_REASON_WRONG_CERTIFICATE, pushpb.Reason_REASON_EXPIRED_CERTIFICATE:
		return codes.Unauthenticated
	case pushpb.Reason_REASON_OTHER_DEVICE:
		return codes.PermissionDenied
	case pushpb.Reason_REASON_OVER_QUOTA, pushpb.Reason_REASON_TOO_BIG:
		return codes.ResourceExhausted
	case pushpb.Reason_REASON_UNKNOWN_RUN:
		return codes.NotFound
	case pushpb.Reason_REASON_CONFLICTING_RUN:
		return codes.AlreadyExists
	case pushpb.Reason_REASON_ENDED_RUN, pushpb.Reason_REASON_OUT_OF_SEQUENCE:
		return codes.FailedPrecondition
	case pushpb.Reason_REASON_CLOCK_BACKWARDS, pushpb.Reason_REASON_GAP, pushpb.Reason_REASON_BAD_CHUNK,
		pushpb.Reason_REASON_BAD_RUN, pushpb.Reason_REASON_BAD_REQUEST:
		return codes.InvalidArgument
	case pushpb.Reason_REASON_DISK_FULL, pushpb.Reason_REASON_KAFKA_AWAY, pushpb.Reason_REASON_STOPPING:
		return codes.Unavailable
	case pushpb.Reason_REASON_TAKEN_OVER:
		return codes.Aborted
	case pushpb.Reason_REASON_UNSPECIFIED, pushpb.Reason_REASON_FAILED:
	}
	return codes.Internal
}

// refusalOf returns what a device gets as the answer to an error: a refusal as
// it is, and what happened to a run in the contract's terms. It is nil for the
// end of the connection, after which no answer reaches the device.
func refusalOf(err error) *refusal {
	var r *refusal
	var invalid *stream.DecodeError
	var permanent *ingest.PermanentError
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		status.Code(err) == codes.Canceled, status.Code(err) == codes.DeadlineExceeded:
		return nil
	case errors.Is(err, errIdle):
		return refuse(pushpb.Reason_REASON_UNKNOWN_RUN, "the run is not registered here any more: register it, and open the stream again")
	case status.Code(err) == codes.ResourceExhausted:
		return refuse(pushpb.Reason_REASON_TOO_BIG, "the message is too big: %s: send shorter chunks", status.Convert(err).Message())
	case errors.As(err, &invalid):
		return refuse(pushpb.Reason_REASON_BAD_CHUNK, "%v", err)
	case errors.Is(err, ingest.ErrFenced):
		return refuse(pushpb.Reason_REASON_TAKEN_OVER, "another server has taken over the run")
	case errors.As(err, &permanent):
		return refuse(pushpb.Reason_REASON_FAILED, "the server can't write the run: %v", err)
	}
	return refuse(pushpb.Reason_REASON_FAILED, "the run has failed: %v", err)
}

// label is a reason as the metrics have it.
func label(r pushpb.Reason) string { return strings.ToLower(reasonName(r)) }

// How many refusals are logged: a few at once, and then one now and then. All of
// them are counted.
const (
	refusalBurst    = 10
	refusalInterval = 5 * time.Second
)

// refusalLog decides which refusals are logged, so that a caller that asks again
// and again doesn't fill the disk. Callers that are not known share one
// allowance, and those that are another, so that strangers don't hide what is
// wrong with a device.
type refusalLog struct {
	mu      sync.Mutex
	classes [2]struct {
		limit  *rate.Limiter
		hidden int // refusals since the last one that was logged
	}
}

// allow reports whether a refusal is to be logged, and how many before it were
// not. An empty device is a stranger.
func (l *refusalLog) allow(device string, now time.Time) (hidden int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	class := &l.classes[0]
	if device != "" {
		class = &l.classes[1]
	}
	if class.limit == nil {
		class.limit = rate.NewLimiter(rate.Every(refusalInterval), refusalBurst)
	}
	if !class.limit.AllowN(now, 1) {
		class.hidden++
		return 0, false
	}
	hidden, class.hidden = class.hidden, 0
	return hidden, true
}
