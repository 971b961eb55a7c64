package push

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	client "github.com/porestream/porestream/push"
	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// chunkOuts are the records of an event with a chunk.
func chunkOuts(t *testing.T, codec *vbz.Codec, c client.Chunk) []stream.Out {
	t.Helper()
	value, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: &streampb.SignalChunk{
		Run: "run", Channel: c.Channel, ReadId: c.ReadID, ReadStart: c.ReadStart, ReadNumber: c.ReadNumber, Number: c.Number, FirstSample: c.FirstSample,
		SampleCount: uint32(len(c.Samples)), Vbz: codec.Encode(nil, c.Samples), EndOfRead: c.EndOfRead,
		CalibrationOffset: c.Offset, CalibrationScale: c.Scale,
	}}})
	require.NoError(t, err)
	return []stream.Out{{Topic: "signal", Value: value}}
}

// TestRecalledRunIsAsItsWriterKnewIt: whatever is committed, aborted or left in doubt, and whatever of the
// topic compaction leaves, a server that recalls a run knows of it what its writer
// knew behind the last committed chunk, and behind what the spool has.
func TestRecalledRunIsAsItsWriterKnewIt(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { ledgerHistory(t, rand.New(rand.NewPCG(seed, 9))) })
	}
}

func ledgerHistory(t *testing.T, rng *rand.Rand) {
	topics := stream.NewTopics("")
	var events [][]stream.Out // chunks of the run
	src, codec := &source{rng: rng}, vbz.NewCodec()
	for range 300 {
		events = append(events, chunkOuts(t, codec, src.next()))
	}
	after := func(n int) *order {
		o := newOrder(Limits{}, 0)
		for _, outs := range events[:n] {
			require.NoError(t, fold(o, topics, outs, nil))
		}
		return o
	}
	var log []stream.Out // of push states, committed
	states := func(context.Context, string) (out []*streampb.PushState, err error) {
		for _, o := range log {
			s, err := stream.DecodePushState(o.Value)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
		return newestState(out), nil
	}
	committed, spooled := 0, 0
	begin := func(device string) *ledger {
		r := newRun(&streampb.Run{Id: "run"}, device, nil)
		l := newLedger(r, topics, states)
		require.NoError(t, l.Recall(t.Context(), uint64(committed), func(each func([]stream.Out) error) error {
			for _, outs := range events[committed : committed+spooled] {
				if err := each(outs); err != nil {
					return err
				}
			}
			return nil
		}))
		require.Equal(t, after(committed), l.state)
		require.Equal(t, after(committed+spooled), r.front)
		require.NoError(t, l.Rewind(uint64(committed)))
		return l
	}
	l := begin("bench-1")
	l.run.session = []byte{1}
	for committed < len(events) {
		// A transaction of some chunks.
		n := min(rng.IntN(8), len(events)-committed)
		for _, outs := range events[committed : committed+n] {
			require.NoError(t, l.Fold(outs))
		}
		if rng.IntN(20) == 0 {
			l.run.former = append(l.run.former, l.run.session)
			l.run.session = []byte{byte(rng.IntN(256))}
		}
		outs, err := l.Outs(false)
		require.NoError(t, err)
		switch rng.IntN(6) {
		case 0: // aborted
			require.NoError(t, l.Rewind(uint64(committed)))
			continue
		case 1: // committed, and nobody knows at first
			log, committed = append(log, outs...), committed+n
			require.NoError(t, l.Rewind(uint64(committed)))
		default:
			log, committed = append(log, outs...), committed+n
			l.Committed()
		}
		if rng.IntN(10) == 0 {
			log = compact(rng, log)
		}
		if committed > 0 && rng.IntN(10) == 0 { // killed
			was := l.run
			spooled = min(rng.IntN(5), len(events)-committed)
			if l = begin("thief"); len(log) > 0 {
				require.Equal(t, "bench-1", l.run.device)
				require.NotNil(t, l.run.claim("thief"))
				require.Nil(t, l.run.claim("bench-1"))
				if last := log[len(log)-1]; string(last.Key) == string(stream.PushStateKey("run", 0)) {
					require.Equal(t, was.session, l.run.session)
				}
			}
		}
	}
	outs, err := l.Outs(true)
	require.NoError(t, err)
	log = append(log, outs...)
	left := compact(rand.New(rand.NewPCG(1, 1)), log)
	require.LessOrEqual(t, len(left), len(log))
	require.Len(t, outs, stream.PushParts+1)
	require.Error(t, l.Rewind(7))
}

// compact leaves the newest record of each key, and all of them from some place on.
func compact(rng *rand.Rand, log []stream.Out) (out []stream.Out) {
	dirty := rng.IntN(len(log) + 1)
	for i, o := range log {
		newer := slices.ContainsFunc(log[i+1:], func(later stream.Out) bool { return string(later.Key) == string(o.Key) })
		if i >= dirty || !newer {
			out = append(out, o)
		}
	}
	return out
}

// TestKilledServerForgetsNothing: after a kill, another device can't take the run
// over, a sender that lost it stays out, and a channel goes on where it was and
// nowhere else; with a spool, too, while Kafka was away.
func TestKilledServerForgetsNothing(t *testing.T) {
	for _, tt := range []struct {
		name           string
		spooled, whole bool
	}{{"in Kafka", false, false}, {"in the spool", true, false}, {"in the spool from its beginning", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			spooled := tt.spooled
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				mine, mineHash := NewToken()
				other, otherHash := NewToken()
				path := filepath.Join(dir, "devices.yaml")
				writeFile(t, path, fmt.Sprintf("devices:\n- {name: mine, tokens: [{sha256: %s, expires: 2099-01-01T00:00:00Z}]}\n- {name: other, tokens: [{sha256: %s, expires: 2099-01-01T00:00:00Z}]}\n", mineHash, otherHash))
				b := newBench(t, func(cfg *Config) {
					var err error
					cfg.Authority, err = NewAuthority(AuthorityConfig{DevicesPath: path, Defaults: testLimits})
					require.NoError(t, err)
					if spooled {
						cfg.Ingest.SpoolDir = filepath.Join(dir, "spool")
					}
				})
				defer func() { b.close() }()
				api, done := b.api()
				defer done()
				as := func(token string) context.Context {
					return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
				}
				open := func(token, session string) (*rawDevice, error) {
					d := &rawDevice{t: t, api: api}
					if _, err := api.Register(as(token), &pushpb.RegisterRequest{Run: testRun}); err != nil {
						return d, err
					}
					var err error
					if d.stream, err = api.Push(as(token)); err != nil {
						return d, err
					}
					if err := d.stream.Send(&pushpb.PushRequest{Body: &pushpb.PushRequest_Open{Open: &pushpb.Open{Run: "run", Session: []byte(session)}}}); err != nil {
						return d, err
					}
					res, err := d.stream.Recv()
					d.opened = res.GetOpened()
					return d, err
				}
				restart := func() {
					if spooled {
						b.close() // its folder is locked
						b.stopped = nil
					} else {
						b.kill()
					}
					b.kafka.setAway(false)
					b.start()
					synctest.Wait()
				}
				d, err := open(mine, "first")
				require.NoError(t, err)
				b.kafka.setAway(tt.whole)
				d.send(piece(0, 1, "a", 0, 0), piece(1, 2, "b", 0, 0, ends))
				time.Sleep(time.Second)
				d, err = open(mine, "second")
				require.NoError(t, err)
				b.kafka.setAway(spooled)
				d.send(piece(2, 1, "a", 0, 10), piece(3, 3, "c", 0, 0))
				time.Sleep(10 * time.Second)
				restart()

				_, err = open(other, "third")
				require.Equal(t, pushpb.Reason_REASON_OTHER_DEVICE, client.Reason(err), err)
				if !spooled {
					_, err = open(mine, "first")
					require.Equal(t, pushpb.Reason_REASON_TAKEN_OVER, client.Reason(err), err)
				}
				for _, tt := range []struct {
					name  string
					chunk *pushpb.Chunk
					want  pushpb.Reason
				}{
					{"a gap", piece(4, 1, "a", 0, 40), pushpb.Reason_REASON_GAP},
					{"a clock that goes back", piece(4, 1, "a", 0, 10), pushpb.Reason_REASON_CLOCK_BACKWARDS},
					{"a read that has ended", piece(4, 2, "b", 0, 10), pushpb.Reason_REASON_BAD_CHUNK},
					{"an end that is missing", piece(4, 3, "d", 100, 0), pushpb.Reason_REASON_GAP},
					{"a new channel in the middle of a read", piece(4, 4, "e", 0, 50), pushpb.Reason_REASON_GAP},
				} {
					d, err = open(mine, "second")
					require.NoError(t, err)
					require.EqualValues(t, 4, d.opened.GetNext())
					d.send(tt.chunk)
					require.Equal(t, tt.want, client.Reason(d.status()), tt.name)
				}
				d, err = open(mine, "second")
				require.NoError(t, err)
				d.send(piece(4, 1, "a", 0, 20, ends), piece(5, 3, "c", 0, 10, ends))
				d.end(6)
				require.Error(t, d.status()) // io.EOF
				require.Len(t, b.kafka.chunks("run"), 6)
				require.True(t, b.kafka.ended("run"))
			})
		})
	}
}
