package sizing

import (
	"math"
	"strconv"
	"time"

	"github.com/porestream/porestream/stream"
)

// Flow is a simulation of the topic signal: what sequencers put into its partitions,
// and what processors take out. Signal is a fluid; partitions, their owners and the moments
// in which a group stands still are discrete. One step is a second.
type Flow struct {
	// Cells are flow cells that begin at Start and sequence for Length, with all Channels at
	// first and a share of Left at the end, in a straight line between.
	Cells []Cell
	// Partitions of the topic. A channel's is chosen as producers choose it.
	Partitions int
	// Processors at the beginning, and what each does, in samples per second.
	Processors int
	Rate       float64
	// Pause is how long no partition is worked on when a processor joins or leaves, and
	// Unnoticed how much longer it takes when one was killed.
	Pause, Unnoticed time.Duration
	// Faults by when they happen.
	Faults []Fault
	// Scaler decides about the number of processors; nil leaves it.
	Scaler *Scaler
	Length time.Duration
}

// Cell is one run of a flow cell.
type Cell struct {
	Run           string
	Channels      int
	Start, Length time.Duration
	// Left is the share of the channels that still sequence at the end.
	Left float64
}

// Fault is something that goes wrong for a while.
type Fault struct {
	At, For time.Duration
	// Killed processors; what takes their place is there after For.
	Killed int
	// Kafka away: measured signal waits in ingest's spool and comes afterwards, at twice
	// the peak of the flow cells.
	Kafka bool
}

// Scaler is the number of processors as the ScaledObject in
// deploy/kubernetes/components/autoscaling makes it: Kubernetes' rule for the larger of
// two metrics, with its windows.
type Scaler struct {
	Min, Max int
	// LoadEach is the rate that one processor is given, by the mean of ten minutes; 0 scales
	// by lag alone.
	LoadEach float64
	// Lag is the number of seconds that may wait.
	Lag float64
	// Up and Down are how far back it considers decisions, for the least and the most that was wanted.
	Up, Down time.Duration
	// UpEvery and DownEvery are the periods of the policies: at most twice as many (or two
	// more) in the one, one less in the other.
	UpEvery, DownEvery time.Duration
}

// Manifest is the scaler with the windows of the manifests.
func Manifest(low, high int, loadEach float64) Scaler {
	return Scaler{Min: low, Max: high, LoadEach: loadEach, Lag: 60, Up: 2 * time.Minute, Down: 30 * time.Minute, UpEvery: 5 * time.Minute, DownEvery: 10 * time.Minute}
}

// Outcome is what came of a flow.
type Outcome struct {
	// Offered and Done samples.
	Offered, Done float64
	// WorstLag is the age of the oldest sample that waited, at the worst, and LastLag at the end.
	WorstLag, LastLag time.Duration
	// Within is the share of the samples that were taken within ten seconds.
	Within float64
	// Scaled counts changes of the number of processors by the scaler, ProcessorHours what
	// they took.
	Scaled         int
	ProcessorHours float64
	// Spool is the most samples that waited at ingest.
	Spool float64
	// Uneven is the largest share of one partition over the mean, when all sequence.
	Uneven float64
}

// queue is one partition: samples that wait, by the second in which they came.
type queue struct {
	at      []int // seconds
	samples []float64
	first   int
}

func (q *queue) push(now int, n float64) {
	if n > 0 {
		q.at, q.samples = append(q.at, now), append(q.samples, n)
	}
}

// take removes up to n samples, oldest first, and reports those that came after since.
func (q *queue) take(n float64, since int) (taken, recent float64) {
	for n > 0 && q.first < len(q.at) {
		part := math.Min(n, q.samples[q.first])
		n, taken = n-part, taken+part
		if q.at[q.first] >= since {
			recent += part
		}
		if q.samples[q.first] -= part; q.samples[q.first] <= 0 {
			q.first++
		}
	}
	if q.first > 4096 && q.first*2 > len(q.at) {
		q.at, q.samples, q.first = append(q.at[:0], q.at[q.first:]...), append(q.samples[:0], q.samples[q.first:]...), 0
	}
	return taken, recent
}

func (q *queue) oldest(now int) int {
	if q.first == len(q.at) {
		return 0
	}
	return now - q.at[q.first]
}

// Simulate runs a flow.
func Simulate(f Flow) Outcome {
	s := newSimulation(f)
	var scaler scaling
	for now := range int(f.Length / time.Second) {
		kafka := s.applyFaults(now)
		s.beginAndEndCells(now)
		waiting := s.measure(now)
		sent, took := 0.0, 0.0
		if kafka {
			sent = s.send(now, waiting)
		}
		s.out.Spool = math.Max(s.out.Spool, waiting-sent)
		if kafka && now >= s.stillUntil && s.processors > 0 {
			took = s.process(now)
		}
		s.out.Done += took
		s.out.LastLag = s.lag(now)
		s.out.WorstLag = max(s.out.WorstLag, s.out.LastLag)
		s.out.ProcessorHours += float64(s.processors) / 3600
		if f.Scaler == nil {
			continue
		}
		if n := scaler.decide(*f.Scaler, now, s.processors, sent, took, s.out.Offered-s.out.Done); n != s.processors {
			s.processors = n
			s.rebalance(now)
			s.out.Scaled++
		}
	}
	if s.out.Done > 0 {
		s.out.Within /= s.out.Done
	}
	return s.out
}

// simulation is a flow under way: samples go from cells into the spool of their partition at ingest, from there into
// the partition's queue in Kafka, and out of that into the processor that has the partition.
type simulation struct {
	flow   Flow
	out    Outcome
	shares [][]float64 // of a cell's channels, by partition
	peak   float64     // samples per second when all cells begin
	spool  []float64   // samples, by partition
	queues []queue     // by partition
	// Of a partition's channels that sequence: samples per second at time 0, and by how much
	// that falls each second.
	base, fall []float64
	sequencing []bool // by cell
	processors int
	stillUntil int // second before which nobody processes, as partitions change hands
}

func newSimulation(f Flow) *simulation {
	s := &simulation{
		flow: f, shares: make([][]float64, len(f.Cells)), spool: make([]float64, f.Partitions), queues: make([]queue, f.Partitions),
		base: make([]float64, f.Partitions), fall: make([]float64, f.Partitions), sequencing: make([]bool, len(f.Cells)),
		processors: f.Processors, stillUntil: -1,
	}
	whole := make([]float64, f.Partitions)
	for i, c := range f.Cells {
		s.shares[i] = make([]float64, f.Partitions)
		for ch := range c.Channels {
			s.shares[i][stream.PartitionFor(stream.SignalKey(c.Run, uint32(ch+1)), int32(f.Partitions))]++
		}
		for p, n := range s.shares[i] {
			whole[p] += n
		}
		s.peak += float64(c.Channels) * SampleRate
	}
	total, most := 0.0, 0.0
	for _, n := range whole {
		total, most = total+n, math.Max(most, n)
	}
	s.out.Uneven = most / (total / float64(f.Partitions))
	return s
}

// rebalance has processing stand still for as long as partitions take to change hands.
func (s *simulation) rebalance(now int) {
	s.stillUntil = max(s.stillUntil, now+int(s.flow.Pause/time.Second))
}

// applyFaults begins and ends the faults of a second, and reports whether Kafka is there.
func (s *simulation) applyFaults(now int) (kafka bool) {
	kafka = true
	for _, fault := range s.flow.Faults {
		begins, ends := int(fault.At/time.Second), int((fault.At+fault.For)/time.Second)
		if fault.Kafka && now >= begins && now < ends {
			kafka = false
		}
		if fault.Killed > 0 && now == begins {
			s.processors -= fault.Killed
			s.stillUntil = max(s.stillUntil, now+int((s.flow.Unnoticed+s.flow.Pause)/time.Second))
		}
		if fault.Killed > 0 && now == ends {
			s.processors += fault.Killed
			s.rebalance(now)
		}
	}
	return kafka
}

// beginAndEndCells sets what partitions get from the cells that sequence, when these have changed.
func (s *simulation) beginAndEndCells(now int) {
	changed := false
	for i, c := range s.flow.Cells {
		age := time.Duration(now)*time.Second - c.Start
		if is := age >= 0 && age < c.Length; is != s.sequencing[i] {
			s.sequencing[i], changed = is, true
		}
	}
	if !changed {
		return
	}
	clear(s.base)
	clear(s.fall)
	for i, c := range s.flow.Cells {
		if !s.sequencing[i] {
			continue
		}
		each := SampleRate * (1 - c.Left) / c.Length.Seconds()
		for p, n := range s.shares[i] {
			s.base[p] += n * (SampleRate + each*c.Start.Seconds())
			s.fall[p] += n * each
		}
	}
}

// measure puts a second's samples into the spool, and returns how many wait there.
func (s *simulation) measure(now int) (waiting float64) {
	for p := range s.spool {
		came := s.base[p] - s.fall[p]*float64(now)
		s.out.Offered += came
		s.spool[p] += came
		waiting += s.spool[p]
	}
	return waiting
}

// send moves samples from the spool to Kafka: at twice the peak at most, all that wait if that is less.
func (s *simulation) send(now int, waiting float64) (sent float64) {
	part := 1.0
	if waiting > 0 {
		part = math.Min(1, 2*s.peak/waiting)
	}
	for p := range s.spool {
		n := s.spool[p] * part
		s.spool[p] -= n
		s.queues[p].push(now, n)
		sent += n
	}
	return sent
}

// process takes what the processors manage in a second: partition p is processor p modulo their number's.
func (s *simulation) process(now int) (took float64) {
	for owner := range s.processors {
		left := s.flow.Rate
		// In turns, so that none of its partitions waits for another.
		for round := 0; round < 3 && left > 1; round++ {
			busy := 0
			for p := owner; p < s.flow.Partitions; p += s.processors {
				if s.queues[p].first < len(s.queues[p].at) {
					busy++
				}
			}
			if busy == 0 {
				break
			}
			each := left / float64(busy)
			for p := owner; p < s.flow.Partitions; p += s.processors {
				n, recent := s.queues[p].take(each, now-10)
				left -= n
				took += n
				s.out.Within += recent
			}
		}
	}
	return took
}

// lag is the age of the oldest sample that waits in Kafka.
func (s *simulation) lag(now int) time.Duration {
	lag := 0
	for p := range s.queues {
		lag = max(lag, s.queues[p].oldest(now))
	}
	return time.Duration(lag) * time.Second
}

// scaling is what a scaler remembers.
type scaling struct {
	sent, took []float64 // by second
	wanted     []int     // at each evaluation, every 15 s
	ups, downs []int     // when it has scaled
}

const evaluationInterval = 15 // seconds between two evaluations by Kubernetes

func (s *scaling) decide(c Scaler, now, have int, sent, took, backlog float64) int {
	s.sent, s.took = append(s.sent, sent), append(s.took, took)
	if now%evaluationInterval != 0 {
		return have
	}
	want := c.Min
	if c.LoadEach > 0 {
		want = max(want, ceil(mean(s.sent, 600)/c.LoadEach))
	}
	lag := 0.0
	if backlog > 1 {
		lag = math.Min(600, backlog/math.Max(mean(s.took, 300), 1))
	}
	// Kubernetes does nothing within a tenth of the target.
	if ratio := lag / c.Lag; math.Abs(ratio-1) > 0.1 {
		want = max(want, ceil(float64(have)*ratio))
	} else {
		want = max(want, have)
	}
	want = min(max(want, c.Min), c.Max)
	s.wanted = append(s.wanted, want)
	least, most := want, want
	for back := range s.wanted {
		age, n := time.Duration(back)*evaluationInterval*time.Second, s.wanted[len(s.wanted)-1-back]
		if age >= max(c.Up, c.Down) {
			break
		}
		if age < c.Up {
			least = min(least, n)
		}
		if age < c.Down {
			most = max(most, n)
		}
	}
	switch {
	case least > have && since(s.ups, now, c.UpEvery):
		s.ups = append(s.ups, now)
		return min(least, max(2*have, have+2))
	case most < have && since(s.downs, now, c.DownEvery):
		s.downs = append(s.downs, now)
		if c.DownEvery == 0 {
			return most
		}
		return have - 1
	}
	return have
}

// since reports whether the last of times is at least d ago.
func since(times []int, now int, d time.Duration) bool {
	return len(times) == 0 || now-times[len(times)-1] >= int(d/time.Second)
}

func mean(values []float64, last int) float64 {
	if len(values) > last {
		values = values[len(values)-last:]
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// Runs are flow cells of an instrument that begin one after another, every apart.
func Runs(i Instrument, length, every time.Duration, left float64) []Cell {
	var out []Cell
	for n := range i.FlowCells {
		out = append(out, Cell{Run: i.Name + "-" + strconv.Itoa(n+1), Channels: i.Channels, Start: time.Duration(n) * every, Length: length, Left: left})
	}
	return out
}
