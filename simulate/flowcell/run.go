package flowcell

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/simulate/internal/queue"
	"github.com/porestream/porestream/simulate/internal/seeded"
	"github.com/porestream/porestream/simulate/squiggle"
)

// The purposes of random numbers.
const (
	cellPurpose uint64 = iota + 0xf10c
	moleculePurpose
)

// Run is a planned run: its reads in the order of their captures. Its methods may be
// called from several goroutines at once.
type Run struct {
	cfg    Config
	pore   *squiggle.Pore
	device device
	about  *signal.Run
	key    [32]byte // of read ids
	ends   [][2][]byte
	reads  []plannedRead
	bases  int
	spent  bool // all pores died before the depth was reached
	length uint64
	makers sync.Pool
}

// plannedRead is what a read needs to be made again.
type plannedRead struct {
	molecule simulate.Molecule
	start    uint64
	samples  uint32
	passed   uint32 // bases of the molecule
	stick    int32  // -1: it doesn't
	stuck    uint32
	channel  uint32
	number   uint32
	offset   float32
	openPore float32
	draw     uint32 // of the molecule and all that the read has of its own
	sample   uint16
	well     uint8
	end      signal.EndReason
}

// Origin is the truth of a read.
type Origin struct {
	Contig  string
	Start   int // 0-based half open on the reference; End <= Start where it goes over the origin
	End     int
	Reverse bool
	// Haplotype is the number of the haplotype, from 1.
	Haplotype       int
	Sample, Barcode string
	Bases           int // of the molecule that passed
}

// channel is the state of a channel while the run is planned. Times are in samples.
type channel struct {
	number  uint32 // from 1
	next    float64
	rnd     *seeded.Source
	deaths  []float64 // of the wells' pores
	well    int
	offset  float32
	reads   uint32
	resting uint64 // scans that are behind it
}

// Plan works out a run. It takes a few hundred nanoseconds for each base.
func Plan(cfg Config, pore *squiggle.Pore) (*Run, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("simulating a flow cell: %w", err)
	}
	r := &Run{cfg: cfg, pore: pore, device: deviceOf(pore.Model(), cfg.Channels)}
	r.makers.New = func() any { return &worker{maker: pore.NewMaker(), rnd: seeded.New(0, 0, 0)} }
	r.key = sha256.Sum256(fmt.Appendf(nil, "porestream flow cell 1\n%d\n%s", cfg.Seed, cfg.Settings))
	for _, s := range cfg.Samples {
		front, err1 := codes(s.Front)
		rear, err2 := codes(s.Rear)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("simulating a flow cell: sample %s: %w", s.Name, err)
		}
		r.ends = append(r.ends, [2][]byte{front, rear})
	}
	if cfg.Kit != "" {
		r.device.kit = cfg.Kit
	}
	r.describe()
	if err := r.plan(); err != nil {
		return nil, fmt.Errorf("simulating a flow cell: %w", err)
	}
	return r, nil
}

// codes turns letters into codes.
func codes(letters string) ([]byte, error) {
	out := make([]byte, 0, len(letters))
	for _, c := range letters {
		code := strings.IndexRune("ACGT", c)
		if code < 0 {
			return nil, fmt.Errorf("%q is none of A, C, G and T", c)
		}
		out = append(out, byte(code))
	}
	return out, nil
}

// describe fills in what the run says of itself.
func (r *Run) describe() {
	name := r.cfg.Samples[0].Name
	if n := len(r.cfg.Samples); n > 1 {
		name = fmt.Sprintf("mixture_of_%d", n)
	}
	id := r.id(math.MaxUint64)
	hexKey := hex.EncodeToString(r.key[:])
	r.about = &signal.Run{
		ID: format(id), SampleRate: r.pore.Model().SampleRate, StartTime: r.cfg.Start.UTC().Truncate(time.Millisecond),
		SampleID: name, ExperimentID: "simulated", ProtocolName: "simulated", ProtocolRunID: format(r.id(math.MaxUint64 - 1)),
		FlowCellID: "SIM" + hexKey[:5], FlowCellProduct: r.device.product, Kit: r.device.kit,
		SequencerPosition: "SIM" + hexKey[5:10], SequencerType: r.device.sequencer, Device: "simulator", Software: "porestream simulate",
		ADCMin: int(r.device.adcLeast), ADCMax: int(r.device.adcMost),
		Context:  map[string]string{"sample_frequency": fmt.Sprint(r.pore.Model().SampleRate)},
		Tracking: map[string]string{"run_id": format(id), "flow_cell_product_code": r.device.product, "seed": fmt.Sprint(r.cfg.Seed)},
	}
	if r.pore.Model().Profile() != "" {
		// What basecallers choose a model by, where they don't go by the flow cell.
		maps.Copy(r.about.Context, map[string]string{
			"sequencing_kit": strings.ToLower(r.device.kit), "experiment_type": "genomic_dna",
			"selected_speed_bases_per_second": nominalSpeed, "package": "porestream simulate",
		})
	}
}

// id returns the UUID of a number, of version 8: made by an application.
func (r *Run) id(number uint64) (id [16]byte) {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(r.key[:len(r.key):len(r.key)], number))
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// format is the usual text form of a UUID.
func format(id [16]byte) string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// FileID is a UUID for the file that the run is written to.
func (r *Run) FileID() [16]byte { return r.id(math.MaxUint64 - 2) }

// samples turns a time into samples.
func (r *Run) samples(d time.Duration) float64 {
	return float64(d.Seconds() * float64(r.pore.Model().SampleRate))
}

// target is how many bases are to pass.
func (r *Run) target() float64 {
	bases, shares := 0.0, 0.0
	for _, s := range r.cfg.Samples {
		bases += s.Share * float64(s.Library.Bases()) / float64(s.Ploidy)
		shares += s.Share
	}
	return r.cfg.Depth * bases / shares
}

// plan captures strands until the depth is reached.
func (r *Run) plan() error {
	// By the time of the next capture.
	waiting := queue.New(func(a, b *channel) int { return cmp.Or(cmp.Compare(a.next, b.next), cmp.Compare(a.number, b.number)) })
	for n := range r.cfg.Channels {
		c := &channel{number: uint32(n + 1), rnd: seeded.New(r.cfg.Seed, cellPurpose, uint64(n))}
		c.offset = float32(math.Round(max(r.device.offset+float64(r.device.offsetSD*c.rnd.NormFloat64()), r.device.offsetLeast)))
		for range r.cfg.Wells {
			c.deaths = append(c.deaths, r.life(c.rnd.Rand))
		}
		if r.change(c, 0) {
			c.next += r.wait(c)
			waiting.Push(c)
		}
	}
	target, last := r.target(), math.Inf(1)
	if r.cfg.Duration > 0 {
		last = r.samples(r.cfg.Duration)
	}
	w := r.makers.Get().(*worker)
	defer r.makers.Put(w)
	draw := uint32(0)
	drawn := false // the draw's molecule is there, and waits for a pore
	var rd plannedRead
	for float64(r.bases) < target {
		if waiting.Len() == 0 {
			r.spent = true
			break
		}
		c := waiting.First()
		if c.next >= last {
			break
		}
		if r.idle(c) {
			if math.IsInf(c.next, 1) {
				waiting.Drop()
			} else {
				waiting.Fix()
			}
			continue
		}
		if !drawn {
			var err error
			if rd, err = r.capture(w, draw); err != nil {
				return err
			}
			drawn = true
		}
		if r.sequence(w, c, &rd, last) {
			if len(r.reads) == maxReads {
				return fmt.Errorf("more than %d reads", maxReads)
			}
			r.reads = append(r.reads, rd)
			r.bases += int(rd.passed)
			r.length = max(r.length, rd.start+uint64(rd.samples))
			draw++
			drawn = false
		}
		waiting.Fix()
	}
	if len(r.reads) == 0 {
		return errors.New("not a single strand was captured: every pore is dead, or the run too short")
	}
	return nil
}

// life draws when the pore of a well dies.
func (r *Run) life(rnd *rand.Rand) float64 {
	inactive := rnd.Float64() < r.cfg.Inactive
	x := rnd.ExpFloat64()
	switch {
	case inactive:
		return 0
	case r.cfg.PoreLife == 0:
		return math.Inf(1)
	}
	return r.samples(r.cfg.PoreLife) * math.Pow(x, 1/poreLifeShape) / math.Gamma(1+1/poreLifeShape)
}

// wait draws the time until the next capture.
func (r *Run) wait(c *channel) float64 {
	return float64(c.rnd.ExpFloat64()*r.samples(r.cfg.Capture)) + 1
}

// change has a channel use another well, from a moment on, and reports whether one is
// left.
func (r *Run) change(c *channel, at float64) bool {
	first := c.rnd.IntN(len(c.deaths))
	for i := range c.deaths {
		if w := (first + i) % len(c.deaths); c.deaths[w] > at {
			c.well, c.next = w, at
			return true
		}
	}
	c.next = math.Inf(1)
	return false
}

// scanAfter is when the next scan begins that a channel has not seen.
func (r *Run) scanAfter(c *channel) float64 {
	if r.cfg.Scan == 0 {
		return math.Inf(1)
	}
	return float64(c.resting+1) * r.samples(r.cfg.Scan)
}

// idle has a channel go through what comes before its next capture, and reports whether
// there was something: a scan, or the death of its pore. What was to be captured is
// captured later.
func (r *Run) idle(c *channel) bool {
	scan, death := r.scanAfter(c), c.deaths[c.well]
	switch {
	case c.next >= scan && scan <= death:
		c.resting++
		if r.change(c, scan+r.samples(scanTime)) {
			c.next += r.wait(c)
		}
	case c.next >= death:
		if r.change(c, death+r.samples(changeTime)) {
			c.next += r.wait(c)
		}
	default:
		return false
	}
	return true
}

// worker makes reads in memory of its own.
type worker struct {
	maker  *squiggle.Maker
	rnd    *seeded.Source
	strand []byte
}

// capture draws the molecule of a number, and what becomes of it.
func (r *Run) capture(w *worker, draw uint32) (plannedRead, error) {
	w.rnd.Reset(r.cfg.Seed, moleculePurpose, uint64(draw))
	rd := plannedRead{draw: draw, stick: -1}
	shares := 0.0
	for _, s := range r.cfg.Samples {
		shares += s.Share
	}
	at := w.rnd.Float64() * shares
	for int(rd.sample) < len(r.cfg.Samples)-1 && at >= r.cfg.Samples[rd.sample].Share {
		at -= r.cfg.Samples[rd.sample].Share
		rd.sample++
	}
	var err error
	if rd.molecule, err = r.cfg.Samples[rd.sample].Library.Draw(w.rnd.Rand); err != nil {
		return rd, err
	}
	sticks, stuck := math.Inf(1), w.rnd.ExpFloat64()
	if x := w.rnd.ExpFloat64(); r.cfg.Blocks > 0 {
		sticks = x / r.cfg.Blocks * 1000
	}
	if sticks < float64(rd.molecule.Length) {
		rd.stick = int32(sticks) + int32(len(r.ends[rd.sample][0]))
		rd.stuck = uint32(min(stuck*r.samples(stuckMean), 1e9)) + 1
	}
	return rd, nil
}

// strand is what passes: preparation's sequences and the molecule.
func (r *Run) strand(w *worker, rd *plannedRead) squiggle.Strand {
	ends := r.ends[rd.sample]
	w.strand = append(w.strand[:0], ends[0]...)
	w.strand = rd.molecule.AppendCodes(w.strand, 0)
	w.strand = append(w.strand, ends[1]...)
	s := squiggle.Strand{Seed: r.cfg.Seed, Number: uint64(rd.draw), Bases: w.strand, Stick: len(w.strand)}
	if rd.stick >= 0 {
		s.Stick, s.Stuck = int(rd.stick), int(rd.stuck)
	}
	return s
}

// sequence has a channel read a captured strand, and reports whether that became a read
// that is kept.
func (r *Run) sequence(w *worker, c *channel, rd *plannedRead, last float64) bool {
	own := w.maker.Time(r.strand(w, rd))
	start := math.Floor(c.next)
	samples := float64(own.Samples)
	rd.end = signal.EndSignalPositive
	recover := 0.0
	if rd.stick >= 0 {
		rd.end, recover = signal.EndUnblockMuxChange, r.samples(unblockTime)
		if c.rnd.Float64() < r.cfg.Lost {
			c.deaths[c.well] = min(c.deaths[c.well], start+samples)
		}
	}
	for _, cut := range []struct {
		at  float64
		end signal.EndReason
	}{{c.deaths[c.well], signal.EndSignalNegative}, {r.scanAfter(c), signal.EndMuxChange}, {last, signal.EndAPIRequest}} {
		if start+samples > cut.at {
			samples, rd.end, recover = math.Floor(cut.at-start), cut.end, 0
		}
	}
	c.next = start + max(samples, 1) + recover + r.wait(c)
	if samples < minRecorded && float64(own.Samples) > samples || samples > math.MaxUint32 {
		return false
	}
	c.reads++
	rd.start, rd.samples = uint64(start), uint32(samples)
	rd.channel, rd.well, rd.number, rd.offset, rd.openPore = c.number, uint8(c.well+1), c.reads, c.offset, float32(own.OpenPorePA)
	passed := w.maker.Passed(int(samples)) - len(r.ends[rd.sample][0])
	rd.passed = uint32(min(max(passed, 0), rd.molecule.Length))
	return true
}

// Runs returns the run.
func (r *Run) Runs() []*signal.Run { return []*signal.Run{r.about} }

// Len returns the number of reads.
func (r *Run) Len() int { return len(r.reads) }

// Bases is how many bases of molecules pass, in all reads.
func (r *Run) Bases() int { return r.bases }

// Depth is the depth that was reached.
func (r *Run) Depth() float64 { return r.cfg.Depth * float64(r.bases) / r.target() }

// Spent reports whether all pores died before the depth was reached.
func (r *Run) Spent() bool { return r.spent }

// Duration is the time to the end of the last read.
func (r *Run) Duration() time.Duration {
	return time.Duration(float64(r.length) / float64(r.about.SampleRate) * float64(time.Second))
}

// Samples appends the ADC levels of read i to buf.
func (r *Run) Samples(i int, buf []int16) ([]int16, error) {
	w := r.makers.Get().(*worker)
	defer r.makers.Put(w)
	rd := &r.reads[i]
	out, _ := w.maker.Append(buf, r.strand(w, rd), r.converter(rd), int(rd.samples))
	return out, nil
}

func (r *Run) converter(rd *plannedRead) squiggle.Converter {
	return squiggle.Converter{Offset: float64(rd.offset), Scale: r.device.scale, Min: r.device.adcLeast, Max: r.device.adcMost}
}

// ID returns the UUID of read i.
func (r *Run) ID(i int) [16]byte { return r.id(uint64(i)) }

// Entry returns all of read i but its samples, 0 <= i < Len(). Reads are in the order
// in which they begin.
func (r *Run) Entry(i int) signal.Read {
	rd := &r.reads[i]
	return signal.Read{
		ID: format(r.ID(i)), Run: r.about, Channel: rd.channel, Well: rd.well, PoreType: "not_set", Number: rd.number,
		StartSample: rd.start, NumSamples: int(rd.samples), MedianBefore: rd.openPore, OpenPoreLevel: rd.openPore,
		Calibration: signal.Calibration{Offset: rd.offset, Scale: float32(r.device.scale)},
		EndReason:   rd.end, EndReasonForced: rd.end.Forced(), MinKNOWEvents: uint64(rd.passed),
	}
}

// Origin returns where read i is from: what of its molecule had passed when it ended.
func (r *Run) Origin(i int) Origin {
	rd := &r.reads[i]
	m := rd.molecule
	s := &r.cfg.Samples[rd.sample]
	o := Origin{Contig: m.Haplotype.Contig, Reverse: m.Reverse, Haplotype: m.Haplotype.Number, Sample: s.Name, Barcode: s.Barcode, Bases: int(rd.passed)}
	first := m.Start
	if m.Reverse {
		first += m.Length - o.Bases
	}
	n := len(m.Haplotype.Seq)
	o.Start = m.Haplotype.Position(first % n)
	o.End = o.Start
	if o.Bases > 0 {
		o.End = m.Haplotype.Position((first+o.Bases-1)%n) + 1
	}
	return o
}

// NumSamples is the number of samples of all reads.
func (r *Run) NumSamples() int64 {
	n := int64(0)
	for i := range r.reads {
		n += int64(r.reads[i].samples)
	}
	return n
}
