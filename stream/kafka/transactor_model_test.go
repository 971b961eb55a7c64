package kafka

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

// view is what readers of the committed see: the model of a topic and of a
// group's offset beside it.
type view struct {
	records map[int32][]string
	offset  int64
}

func (v view) with(records map[int32][]string, offset int64) view {
	next := view{records: make(map[int32][]string), offset: offset}
	for p, values := range v.records {
		next.records[p] = slices.Clone(values)
	}
	for p, values := range records {
		next.records[p] = append(next.records[p], values...)
	}
	return next
}

// player drives transactors of one id through random steps and keeps the model.
type player struct {
	*testing.T
	rng     *rand.Rand
	client  *Client
	network *faultyNetwork
	in, out string

	holder  *Transactor
	zombies []*Transactor
	holding bool
	failed  bool // the holder has to abort
	model   view
	open    map[int32][]string // in the transaction
	held    map[int32][]string // in the next
	n       int
	doubts  int
	steps   []string
}

func (p *player) note(format string, args ...any) {
	p.steps = append(p.steps, fmt.Sprintf(format, args...))
}

func (p *player) take() {
	p.holder = newTransactor(p.T, p.client, p.out, ProducerConfig{Linger: -1})
	p.open, p.held = make(map[int32][]string), make(map[int32][]string)
	p.holding, p.failed = false, false
}

func (p *player) send(tr *Transactor) error {
	p.n++
	partition, v := int32(p.rng.IntN(3)), fmt.Sprint(p.n)
	p.note("send %s to %d", v, partition)
	err := tr.Send(p.Context(), []stream.Out{{Topic: p.out, Partition: partition, Value: []byte(v)}}, nil)
	if err == nil && tr == p.holder {
		into := p.open
		if p.holding {
			into = p.held
		}
		into[partition] = append(into[partition], v)
	}
	return err
}

// step does one thing. Whatever the network does, errors may only be those that
// the documentation allows.
func (p *player) step() {
	switch p.rng.IntN(20) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		require.Equal(p, p.failed, p.send(p.holder) != nil)
	case 8, 9:
		p.note("hold")
		require.Equal(p, p.failed, p.holder.Hold(p.Context()) != nil)
		p.holding = true
	case 10, 11, 12, 13:
		p.commit()
	case 14:
		p.note("abort")
		require.NoError(p, p.holder.Abort(p.Context()))
		p.open, p.held = make(map[int32][]string), make(map[int32][]string)
		p.holding, p.failed = false, false
	case 15:
		p.note("crash")
		p.holder.stop() // not a word to the broker
		p.take()
	case 16:
		p.note("another holder")
		p.zombies = append(p.zombies, p.holder)
		p.take()
	case 17:
		p.zombie()
	default:
		keys := []protocol.ApiKey{protocol.Produce, protocol.AddPartitionsToTxn, protocol.AddOffsetsToTxn, protocol.TxnOffsetCommit,
			protocol.EndTxn, protocol.InitProducerId, protocol.OffsetFetch}
		f := &networkFault{key: keys[p.rng.IntN(len(keys))], answer: p.rng.IntN(2) == 0, left: 1 + p.rng.IntN(3), skip: p.rng.IntN(3)}
		p.note("lose %d of %v, answers: %v", f.left, f.key, f.answer)
		p.network.add(f)
	}
}

func (p *player) commit() {
	next := p.model.with(p.open, p.model.offset+1)
	steal := p.rng.IntN(8) == 0
	if steal {
		p.note("another holder during the commit")
		old := p.holder
		p.zombies = append(p.zombies, old)
		p.network.add(&networkFault{key: protocol.EndTxn, answer: p.rng.IntN(2) == 0, left: 1, then: p.take})
		err := old.Commit(p.Context(), offsetsOf(p.out, p.in, 0, next.offset, ""))
		if p.holder != old {
			require.ErrorIs(p, err, ErrInDoubt)
			p.settle(next)
			return
		}
		// It never came so far.
		p.network.stop()
		p.zombies = p.zombies[:len(p.zombies)-1]
		p.concluded(err, next)
		return
	}
	p.note("commit")
	p.concluded(p.holder.Commit(p.Context(), offsetsOf(p.out, p.in, 0, next.offset, "")), next)
}

// concluded takes what a commit says for the truth.
func (p *player) concluded(err error, next view) {
	switch {
	case err == nil:
		require.False(p, p.failed)
		p.model = next
		p.open, p.held, p.holding = p.held, make(map[int32][]string), false
	case errors.Is(err, ErrInDoubt):
		p.zombies = append(p.zombies, p.holder)
		p.take()
		p.settle(next)
	case errors.Is(err, ErrFenced):
		p.Fatalf("fenced without another holder: %v", err)
	default:
		p.failed, p.holding = true, true
	}
}

// settle asks which of two views it is.
func (p *player) settle(next view) {
	p.doubts++
	offset, _, err := p.client.CommittedOffset(p.Context(), p.out, p.in, 0)
	require.NoError(p, err)
	if offset == next.offset {
		p.model = next
	}
	require.Equal(p, p.model.offset, offset)
}

// zombie lets one who no longer holds the id act: it gets nowhere.
func (p *player) zombie() {
	if len(p.zombies) == 0 {
		return
	}
	z := p.zombies[p.rng.IntN(len(p.zombies))]
	p.note("zombie")
	_ = p.send(z)
	if p.rng.IntN(2) == 0 {
		require.Error(p, z.Commit(p.Context(), offsetsOf(p.out, p.in, 0, 1000, "")))
		return
	}
	// One that has nothing to abort does not learn that it is one.
	_ = z.Abort(p.Context())
}

func (p *player) check() {
	seen := visible(p.T, p.client, p.out)
	assert.Equal(p, p.model.records, seen)
	offset, _, err := p.client.CommittedOffset(p.Context(), p.out, p.in, 0)
	require.NoError(p, err)
	assert.Equal(p, p.model.offset, offset)
	if p.Failed() {
		p.Logf("steps: %q", p.steps)
	}
}

// Random sequences of sends, holds, commits, aborts, crashes, new holders,
// zombies and losses of the network: what is committed is what the model says.
func TestTransactionsAgreeWithAModel(t *testing.T) {
	cases := 12
	if n, err := strconv.Atoi(os.Getenv("PORESTREAM_CASES")); err == nil {
		cases = n
	}
	streamtest.Each(t, func(t *testing.T, addr string) {
		doubts := 0
		for seed := range uint64(cases) {
			c, network := dialFaulty(t, addr)
			p := &player{T: t, rng: rand.New(rand.NewPCG(seed, 1)), client: c, network: network,
				in: newTopic(t, c, 1), out: newTopic(t, c, 3), model: view{records: make(map[int32][]string), offset: 0}}
			p.take()
			require.NoError(t, p.holder.Commit(t.Context(), offsetsOf(p.out, p.in, 0, 0, "")))
			for range 60 {
				p.step()
			}
			network.stop()
			p.note("the end")
			p.take() // ends what is open
			p.check()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
			doubts += p.doubts
		}
		t.Logf("%d commits were in doubt", doubts)
		assert.Positive(t, doubts)
	})
}
