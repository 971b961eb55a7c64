package virtual

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/annotate/diplotype"
	"github.com/porestream/porestream/chaos/check"
	"github.com/porestream/porestream/chaos/history"
	"github.com/porestream/porestream/chaos/nemesis"
	"github.com/porestream/porestream/chaos/observe"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/planted"
	"github.com/porestream/porestream/stream/streamtest"
)

// cuttable is the network of one member, which can be cut off with all its connections, or be slow.
type cuttable struct {
	dialer func(ctx context.Context, network, address string) (net.Conn, error)
	delay  atomic.Int64 // of every write, in nanoseconds
	mu     sync.Mutex
	off    bool
	conns  []net.Conn
}

// slowable is one of its connections. What is written is under way without holding up the writer: kafka-go writes under a mutex, and
// virtual time stands still while a goroutine waits for one.
type slowable struct {
	net.Conn
	of    *cuttable
	queue chan []byte
	done  chan struct{}
	once  sync.Once
}

// slowableQueue bounds the writes that are under way.
const slowableQueue = 1 << 12

func (s *slowable) Write(b []byte) (int, error) {
	select {
	case s.queue <- bytes.Clone(b):
		return len(b), nil
	case <-s.done:
		return 0, net.ErrClosed
	}
}

func (s *slowable) Close() error {
	s.once.Do(func() { close(s.done) })
	return s.Conn.Close()
}

// mayTakeLong reports whether a request may be slow. Those of kafka-go's group membership may not: it waits for answers under a mutex, too.
func mayTakeLong(request []byte) bool {
	if len(request) < 6 {
		return false
	}
	switch kmsg.Key(binary.BigEndian.Uint16(request[4:])) { // behind the size
	case kmsg.Produce, kmsg.Fetch, kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.TxnOffsetCommit:
		return true
	}
	return false
}

// deliver passes on what was written until the connection is closed.
func (s *slowable) deliver() {
	for {
		select {
		case <-s.done:
			return
		case b := <-s.queue:
			if delay := s.of.delay.Load(); delay > 0 && mayTakeLong(b) {
				select {
				case <-time.After(time.Duration(delay)):
				case <-s.done:
					return
				}
			}
			if _, err := s.Conn.Write(b); err != nil {
				s.Close()
				return
			}
		}
	}
}

func (c *cuttable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: network, Err: syscall.ENETUNREACH}
	if c.isOff() {
		return nil, refused
	}
	conn, err := c.dialer(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s := &slowable{Conn: conn, of: c, queue: make(chan []byte, slowableQueue), done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		conn.Close()
		return nil, refused
	}
	c.conns = append(c.conns, s)
	go s.deliver()
	return s, nil
}

func (c *cuttable) isOff() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.off
}

func (c *cuttable) cut(off bool) {
	c.mu.Lock()
	conns := c.conns
	c.off, c.conns = off, nil
	c.mu.Unlock()
	for _, conn := range conns {
		conn.Close()
	}
}

// world is a cluster with processors that come and go.
type world struct {
	t          *testing.T
	recording  *recording
	partitions map[string]int32
	network    *kfake.VirtualNetwork
	cluster    *kfake.Cluster
	outside    observe.Cluster

	calm atomic.Bool // nothing more happens to members

	mu          sync.Mutex
	lives       int            // of members
	ends        map[string]int // by how they ended
	faults      int            // of brokers
	thefts      int
	evicted     int
	generations int
	errs        []error
}

// groups are the consumer groups by their input.
var groups = map[string]string{"porestream-basecall": "signal", "porestream-variant": "reads", "porestream-methylate": "reads", "porestream-annotate": "calls"}

// rebalanceTimeout is how long the coordinator waits for a member to join. A member gives a join up 10 s later, and joins again: with three
// members, some pause between two joins must be longer than this. For kfake miscounts when a member goes while it waits for its assignment
// (TestKfakeWaitsForMemberThatLeftSyncing in stream/embedded), waits in vain, and begins to wait anew with every join. Joins that are given
// up in turn would keep the group without a generation for ever. Apache Kafka does not wait for a member that has left. It is also less
// than SessionTimeout, because kfake lets sessions end while members wait for others.
const rebalanceTimeout = 5 * time.Second

// live is the life of one member: it takes part with all stages until it ends in one of several ways.
func (w *world) live(ctx context.Context, rng *rand.Rand) {
	net := &cuttable{dialer: w.network.DialContext}
	client, err := kafka.Connect(ctx, kafka.Config{Brokers: w.cluster.ListenAddrs(), Dial: net.dial})
	if err != nil {
		if ctx.Err() == nil {
			w.fail(err)
		}
		return
	}
	defer client.Close()
	life, end := context.WithCancel(ctx)
	defer end()
	var running sync.WaitGroup
	for _, s := range w.recording.stages(w.partitions) {
		running.Go(func() {
			err := kafka.RunGroup(life, client, kafka.GroupConfig{
				Group: "porestream-" + s.Name, Topics: []string{s.Input}, NewHandler: s.New, MaxFailures: 1 << 20,
				SessionTimeout: 6 * time.Second, RebalanceTimeout: rebalanceTimeout, DrainTimeout: 3 * time.Second,
				State: kafka.StateConfig{Topic: stream.NewTopics("").State, Interval: 10 * time.Second},
				OnAssigned: func(assigned, live int) {
					if assigned > 0 && live == 0 {
						w.mu.Lock()
						defer w.mu.Unlock()
						w.generations++
					}
				},
			})
			if err != nil {
				w.fail(err)
			}
		})
	}
	pause := func(least, most int) {
		select {
		case <-time.After(time.Duration(least+rng.IntN(most-least)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
	pause(2000, 60_000)
	if w.calm.Load() {
		<-ctx.Done()
	}
	how := []string{"stopped", "killed", "cut off for long", "cut off for a moment", "slow"}[rng.IntN(5)]
	switch how {
	case "killed":
		net.cut(true)
	case "cut off for long": // it comes back as a zombie
		net.cut(true)
		pause(7000, 15_000)
		net.cut(false)
		pause(1000, 10_000)
	case "slow": // above and below the session's timeout
		net.delay.Store(int64(rng.IntN(8000)) * int64(time.Millisecond))
		pause(1000, 20_000)
		net.delay.Store(0)
		pause(1000, 5000)
	case "cut off for a moment":
		net.cut(true)
		pause(10, 2000)
		net.cut(false)
		pause(1000, 10_000)
	}
	end()
	running.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives++
	w.ends[how]++
}

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
}

// trouble makes the brokers err until ctx ends.
func (w *world) trouble(ctx context.Context, rng *rand.Rand) {
	kinds := []func(){
		w.cluster.ShufflePartitionLeaders,
		w.cluster.RehashCoordinators,
		func() { streamtest.AfterApply(w.cluster, kmsg.Produce, 1+rng.IntN(3)) },
		func() { streamtest.AfterApply(w.cluster, kmsg.EndTxn, 1+rng.IntN(2)) },
		func() { streamtest.AfterApply(w.cluster, kmsg.TxnOffsetCommit, 1+rng.IntN(2)) },
		func() { w.steal(ctx, rng) },
		func() { w.evict(ctx, "porestream-basecall", rng.IntN(1<<10)) },
		func() { w.evict(ctx, "porestream-variant", rng.IntN(1<<10)) },
		func() { w.evict(ctx, "porestream-methylate", rng.IntN(1<<10)) },
		func() { streamtest.Refuse(w.cluster, kmsg.AddPartitionsToTxn, kerr.ConcurrentTransactions, 2) },
		func() { streamtest.Refuse(w.cluster, kmsg.EndTxn, kerr.NotCoordinator, 2) },
		func() { streamtest.Refuse(w.cluster, kmsg.TxnOffsetCommit, kerr.CoordinatorLoadInProgress, 2) },
		func() { streamtest.Refuse(w.cluster, kmsg.InitProducerID, kerr.CoordinatorNotAvailable, 2) },
		func() { streamtest.Refuse(w.cluster, kmsg.Produce, kerr.NotLeaderForPartition, 2) },
		func() { streamtest.Refuse(w.cluster, kmsg.OffsetFetch, kerr.UnstableOffsetCommit, 2) },
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(200+rng.IntN(3000)) * time.Millisecond):
		}
		kinds[rng.IntN(len(kinds))]()
		w.mu.Lock()
		w.faults++
		w.mu.Unlock()
	}
}

// steal lets a thief take a partition's transactional id, and leaves it to fail if a broker errs meanwhile.
func (w *world) steal(ctx context.Context, rng *rand.Rand) {
	stage := [][2]string{{"basecall", "reads"}, {"variant", "calls"}, {"methylate", "methylation"}, {"annotate", "variants"}}[rng.IntN(4)]
	group := "porestream-" + stage[0]
	id := fmt.Sprintf("%s/%s/%d", group, groups[group], rng.Int32N(w.partitions[groups[group]]))
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if nemesis.Steal(ctx, w.outside, id, stage[1], rng.IntN(2) == 0) == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.thefts++
	}
}

// evict makes a member a zombie, and leaves it if a broker errs meanwhile.
func (w *world) evict(ctx context.Context, group string, target int) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if nemesis.Evict(ctx, w.outside, group, target) == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.evicted++
	}
}

// offline computes what must come out, without Kafka: every stage reads all that the one before has written.
func offline(t *testing.T, r *recording) check.Contents {
	one := map[string]int32{"signal": 1, "reads": 1, "calls": 1, "variants": 1, "methylation": 1}
	c := check.Contents{Topics: stream.NewTopics(""), Records: make(map[string][]stream.Record), Successive: true}
	put := func(outs []stream.Out) {
		for _, o := range outs {
			c.Records[o.Topic] = append(c.Records[o.Topic], stream.Record{
				Topic: o.Topic, Offset: int64(len(c.Records[o.Topic])), Key: o.Key, Value: o.Value, Headers: o.Headers, Time: time.Now(),
			})
		}
	}
	for topic := range one {
		c.Bounds = append(c.Bounds, check.Bounds{Topic: topic})
	}
	put(r.records(t, 1))
	for _, input := range []string{"signal", "reads", "calls"} {
		stages := slices.DeleteFunc(r.stages(one), func(s check.Stage) bool { return s.Input != input })
		returned := make([]int, len(stages))
		for again := true; again; {
			again = false
			var others []stream.Out
			for i, s := range stages {
				written, err := c.Recompute(t.Context(), []check.Stage{s})
				require.NoError(t, err)
				// What a stage says over its own input comes behind what is there, and leads to more.
				news := written[input][returned[i]:]
				returned[i] += len(news)
				put(news)
				again = again || len(news) > 0
				delete(written, input)
				for _, outs := range written {
					others = append(others, outs...)
				}
			}
			if !again {
				put(others)
			}
		}
	}
	results, err := r.results(c.Records["variants"], 1)
	require.NoError(t, err)
	c.VCF = map[string][]byte{"sample": results}
	c.Methylation, err = r.methylation(c.Records["methylation"], 1)
	require.NoError(t, err)
	for haplotype := range 3 {
		require.NotEmpty(t, c.Methylation[fmt.Sprintf("sample, haplotype %d", haplotype)])
	}
	return c
}

// feed plays the recording over a time, with a producer that nothing happens to.
func (w *world) feed(ctx context.Context, client *kafka.Client, over time.Duration) {
	producer, err := kafka.NewProducer(ctx, client, kafka.ProducerConfig{})
	require.NoError(w.t, err)
	outs := w.recording.records(w.t, w.partitions["signal"])
	for i := range outs {
		require.NoError(w.t, producer.Send(ctx, outs[i:i+1], nil))
		time.Sleep(over / time.Duration(len(outs)))
	}
	require.NoError(w.t, producer.Close(ctx))
}

// setting is a number from the environment.
func setting(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err, variable)
	return n
}

// TestProcessorsComeAndGo lets members of all groups crash, hang, stop and come back while brokers err, and checks what is left on the
// topics as a run of the real processes is checked. PORESTREAM_VIRTUAL_SEEDS and PORESTREAM_VIRTUAL_MINUTES make it longer.
func TestProcessorsComeAndGo(t *testing.T) {
	seeds, minutes := setting(t, "PORESTREAM_VIRTUAL_SEEDS", 1), setting(t, "PORESTREAM_VIRTUAL_MINUTES", 3)
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			began := time.Now()
			rng := rand.New(rand.NewPCG(seed, 1))
			over := time.Duration(minutes) * time.Minute
			r := record(t, rng, int(over/time.Second)*2)
			synctest.Test(t, func(t *testing.T) { comeAndGo(t, rng, r, over) })
			t.Logf("took %v", time.Since(began))
		})
	}
}

func comeAndGo(t *testing.T, rng *rand.Rand, r *recording, over time.Duration) {
	var network kfake.VirtualNetwork
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094), kfake.ListenFn(embedded.Patient(network.Listen)), kfake.GroupMinSessionTimeout(time.Second))
	require.NoError(t, err)
	defer cluster.Close()
	w := &world{t: t, recording: r, network: &network, cluster: cluster, ends: make(map[string]int), partitions: make(map[string]int32)}
	for _, topic := range []string{"signal", "reads", "calls", "variants", "methylation"} {
		w.partitions[topic] = 1 + rng.Int32N(4)
	}
	client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: cluster.ListenAddrs(), Dial: network.DialContext})
	require.NoError(t, err)
	defer client.Close()
	topics := stream.NewTopics("")
	settings := append(topics.Settings(1), topics.MethylationSettings(1)...)
	for i := range settings {
		settings[i].Partitions = int(max(1, w.partitions[settings[i].Name]))
	}
	require.NoError(t, client.EnsureTopics(t.Context(), settings, 3))

	log := history.NewLog(io.Discard, time.Now)
	w.outside = observe.Cluster{Addrs: cluster.ListenAddrs(), Dial: network.DialContext}
	observer, err := observe.New(w.outside, w.partitions, groups, log)
	require.NoError(t, err)
	watching, stopWatching := context.WithCancel(t.Context())
	troubling, heal := context.WithCancel(t.Context())
	living, stop := context.WithCancel(t.Context())
	var watchers, members, troubles sync.WaitGroup
	watchers.Go(func() { observer.Run(watching, 5*time.Second) })
	trouble := rand.New(rand.NewPCG(rng.Uint64(), 2))
	troubles.Go(func() { w.trouble(troubling, trouble) })
	for range 3 {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 3))
		members.Go(func() {
			for living.Err() == nil {
				w.live(living, rng)
				time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
			}
		})
	}
	w.feed(t.Context(), client, over)
	heal()
	troubles.Wait()
	w.calm.Store(true)
	deadline := time.Now().Add(10 * time.Minute)
	for calm := 0; calm < 4 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Second)
		if calm++; !observer.CaughtUp() {
			calm = 0
		}
	}
	if observer.CaughtUp() {
		log.Add(history.Event{Kind: history.RunEnds})
	}
	stop()
	members.Wait()
	stopWatching()
	watchers.Wait()
	w.verify(log)
}

func (w *world) verify(log *history.Log) {
	t := w.t
	topics := stream.NewTopics("")
	contents, err := w.outside.Contents(t.Context(), topics, []string{topics.Signal, topics.Reads, topics.Calls, topics.Variants, topics.Methylation, topics.DeadLetters})
	require.NoError(t, err)
	contents.Successive = true
	results, err := w.recording.results(contents.Records[topics.Variants], w.partitions["variants"])
	if err != nil {
		results = []byte(err.Error()) // it differs from the run without faults, and other checks say what is missing
	}
	contents.VCF = map[string][]byte{"sample": results}
	if contents.Methylation, err = w.recording.methylation(contents.Records[topics.Methylation], w.partitions["methylation"]); err != nil {
		contents.Methylation = map[string][]byte{"sample": []byte(err.Error())}
	}
	// What is written of signal depends on which read is called first.
	folding := slices.DeleteFunc(w.recording.stages(w.partitions), func(s check.Stage) bool { return s.Input == topics.Signal })
	var recomputed check.Recomputed
	var reference check.Contents
	planted.Without(func() {
		recomputed, err = contents.Recompute(t.Context(), folding)
		require.NoError(t, err)
		reference = offline(t, w.recording)
	})
	events, err := log.Events()
	require.NoError(t, err)
	partials := 0
	for _, rec := range contents.Records[topics.Reads] {
		if m, err := stream.DecodeReads(rec.Value); err == nil && m.GetPartial() != nil {
			partials++
		}
	}
	require.NotZero(t, partials, "reads before their end")
	named := string(reference.VCF["sample"][bytes.Index(reference.VCF["sample"], []byte(diplotype.TableHeader)):])
	require.Regexp(t, `\nsample\tG\t\.\t.*\tploidy 1 at c0:`, named)
	t.Logf("%v: %d lives %v, %d generations of members, %d faults of brokers, %d thefts, %d evicted; %d transactions committed, %d aborted; %d segments, %d of them of open reads, %d variants, %d counts", w.partitions, w.lives, w.ends, w.generations, w.faults, w.thefts, w.evicted,
		contents.Committed, contents.Aborted, len(contents.Records[topics.Reads]), partials, len(contents.Records[topics.Variants]), len(contents.Records[topics.Methylation]))
	for _, v := range check.Violations(check.Evidence{Run: contents, Reference: reference, History: events, Recomputed: recomputed},
		check.Limits{Stall: 5 * time.Minute, FirstOutput: 5 * time.Minute}) {
		t.Error(v)
	}
	require.NoError(t, errors.Join(w.errs...))
}
