package notify

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/alert"
)

// receiver is a destination that does what a function says, and notes when it was tried.
type receiver struct {
	answer func(ctx context.Context, try int) error
	at     []time.Time
	ids    []string
}

func (r *receiver) send(ctx context.Context, m *message) error {
	r.at, r.ids = append(r.at, time.Now()), append(r.ids, m.ID)
	return r.answer(ctx, len(r.at))
}

func courierTo(s sender, giveUp time.Duration) *courier {
	when, _ := compileWhen("")
	return &courier{name: "a", states: []watchlist.State{watchlist.Detected}, when: when, sender: s, timeout: defaultTimeout, giveUp: giveUp, deadLetters: "dlq",
		metrics: NewMetrics(prometheus.NewRegistry()).of("a"), log: slog.New(slog.DiscardHandler)}
}

// resolved is an emitter that keeps what it is given.
type resolved struct {
	outs    []stream.Out
	offsets []int64
}

func (r *resolved) Emit(_ context.Context, outs []stream.Out, offsets []int64) error {
	r.outs, r.offsets = append(r.outs, outs...), append(r.offsets, offsets...)
	return nil
}
func (r *resolved) Fail(error) {}

func record(t *testing.T, revision uint64, at time.Time) stream.Record {
	out := detected(t, "s", revision)
	return stream.Record{Topic: "alerts", Offset: int64(revision), Key: out.Key, Value: out.Value, Headers: out.Headers, Time: at}
}

var errDown = errors.New("down")

func TestReceiverThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(_ context.Context, try int) error {
			if try <= 20 {
				return errDown
			}
			return nil
		}}
		var emit resolved
		c := courierTo(r, 24*time.Hour)
		require.NoError(t, handler{c}.Handle(t.Context(), record(t, 1, time.Now()), &emit))
		require.Equal(t, []int64{1}, emit.offsets)
		require.Empty(t, emit.outs)
		require.Len(t, r.at, 21)
		for i := 1; i < len(r.at); i++ {
			require.Equal(t, r.ids[0], r.ids[i])
			require.Less(t, r.at[i].Sub(r.at[i-1]), 2*maxWait)
			require.GreaterOrEqual(t, r.at[i].Sub(r.at[i-1]), firstWait/2)
		}
		require.EqualValues(t, 20, testutil.ToFloat64(c.metrics.tries.WithLabelValues(resultFailed)))
		require.EqualValues(t, 0, testutil.ToFloat64(c.metrics.waiting))
	})
}

func TestReceiverThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		var emit resolved
		c := courierTo(r, time.Hour)
		begin := time.Now()
		require.NoError(t, handler{c}.Handle(t.Context(), record(t, 1, begin), &emit))
		require.InDelta(t, time.Hour.Seconds(), time.Since(begin).Seconds(), defaultTimeout.Seconds()+1)
		require.Equal(t, []int64{1}, emit.offsets)
		require.Len(t, emit.outs, 1)
		letter, err := stream.ParseDeadLetter(stream.Record{Topic: "dlq", Headers: emit.outs[0].Headers, Value: emit.outs[0].Value, Key: emit.outs[0].Key})
		require.NoError(t, err)
		require.Equal(t, []string{Name, codeExpired}, []string{letter.Stage, letter.Code})
		require.Contains(t, letter.Reason, "destination a: not delivered within 1h0m0s")
		require.Contains(t, letter.Reason, "no answer within 10s")
		require.EqualValues(t, 1, testutil.ToFloat64(c.metrics.alerts.WithLabelValues(codeExpired)))
		require.EqualValues(t, len(r.at), testutil.ToFloat64(c.metrics.tries.WithLabelValues(resultTimeout)))
		// Its time was over before its turn came: it is tried once all the same.
		r.answer = func(context.Context, int) error { return nil }
		require.NoError(t, handler{c}.Handle(t.Context(), record(t, 2, begin.Add(-time.Minute)), &emit))
		require.EqualValues(t, 1, testutil.ToFloat64(c.metrics.alerts.WithLabelValues(outcomeDelivered)))
	})
}

func TestReceiverThatNamesATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(_ context.Context, try int) error {
			if try == 1 {
				return &laterError{errDown, 17 * time.Minute}
			}
			return nil
		}}
		var emit resolved
		require.NoError(t, handler{courierTo(r, time.Hour)}.Handle(t.Context(), record(t, 1, time.Now()), &emit))
		require.Equal(t, 17*time.Minute, r.at[1].Sub(r.at[0]))
	})
}

func TestReceiverThatRefuses(t *testing.T) {
	r := &receiver{answer: func(context.Context, int) error { return &refusedError{errors.New("no")} }}
	var emit resolved
	c := courierTo(r, time.Hour)
	require.NoError(t, handler{c}.Handle(t.Context(), record(t, 1, time.Now()), &emit))
	require.Len(t, r.at, 1)
	require.Len(t, emit.outs, 1)
	require.EqualValues(t, 1, testutil.ToFloat64(c.metrics.alerts.WithLabelValues(codeRefused)))
	require.EqualValues(t, 1, testutil.ToFloat64(c.metrics.tries.WithLabelValues(resultRefused)))
}

// Stopped while a receiver is away, nothing is resolved; stopped while a request is under way, the request may end.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &receiver{answer: func(context.Context, int) error { return errDown }}
		var emit resolved
		go func() {
			time.Sleep(time.Minute)
			cancel()
		}()
		require.ErrorIs(t, handler{courierTo(r, time.Hour)}.Handle(ctx, record(t, 1, time.Now()), &emit), context.Canceled)
		require.Empty(t, emit.offsets)
		ctx, cancel = context.WithCancel(t.Context())
		r = &receiver{answer: func(ctx context.Context, _ int) error {
			cancel()
			time.Sleep(5 * time.Second)
			return ctx.Err()
		}}
		require.NoError(t, handler{courierTo(r, time.Hour)}.Handle(ctx, record(t, 2, time.Now()), &emit))
		require.Equal(t, []int64{2}, emit.offsets)
	})
}

func TestWhatIsNotSent(t *testing.T) {
	r := &receiver{answer: func(context.Context, int) error { return nil }}
	c := courierTo(r, time.Hour)
	var emit resolved
	unwanted := Example()
	unwanted.State, unwanted.Previous = watchlist.Suspected, watchlist.Pending
	out, err := alert.Record("alerts", unwanted)
	require.NoError(t, err)
	broken := record(t, 3, time.Now())
	broken.Value = broken.Value[:20]
	for i, rec := range []stream.Record{{Value: out.Value, Headers: out.Headers}, {Headers: []stream.Header{{Key: "ce_type", Value: []byte("porestream.future.v9")}}}, broken} {
		rec.Offset = int64(i)
		require.NoError(t, handler{c}.Handle(t.Context(), rec, &emit))
	}
	require.Equal(t, []int64{0, 1, 2}, emit.offsets)
	require.Empty(t, r.at)
	require.Len(t, emit.outs, 1) // the broken one is kept
	require.EqualValues(t, 1, testutil.ToFloat64(c.metrics.alerts.WithLabelValues(outcomeUnwanted)))
	require.EqualValues(t, 1, testutil.ToFloat64(c.metrics.alerts.WithLabelValues(codeUnreadable)))
	c.when, err = compileWhen(`severity == "high"`)
	require.NoError(t, err)
	require.NoError(t, handler{c}.Handle(t.Context(), record(t, 4, time.Now()), &emit))
	require.Empty(t, r.at)
	c.when, err = compileWhen(`severity.of.what == 7`) // can't be said: rather too much than silence
	require.NoError(t, err)
	require.NoError(t, handler{c}.Handle(t.Context(), record(t, 5, time.Now()), &emit))
	require.Len(t, r.at, 1)
}
