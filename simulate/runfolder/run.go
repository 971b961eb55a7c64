package runfolder

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/simulate/internal/queue"
	"github.com/porestream/porestream/simulate/internal/seeded"
)

// The purposes of random numbers.
const (
	channelPurpose uint64 = iota + 0xf01d
	readPurpose
)

// Sample is one of those that are sequenced.
type Sample struct {
	// Barcode is what its reads are found to have, such as barcode01; empty: none is found.
	Barcode string
	Library *simulate.Library
	Share   float64 // of the reads, relative to the others'
}

// Config says what is sequenced, for how long, and what the run is called.
type Config struct {
	Samples []Sample
	Profile *simulate.Profile // of errors
	Seed    uint64
	// Settings are all other settings as text, which the run's identifier depends on besides
	// the seed.
	Settings string
	Start    time.Time
	// Duration is when the run is stopped: strands that are in a pore by then are cut.
	Duration time.Duration
	Channels int
	Speed    float64       // of a strand, in bases per second
	Capture  time.Duration // mean time until an open pore has the next strand
	// MinLength is the least length of a read in bases; shorter ones are not kept.
	MinLength int
	// Failed is the share of reads that fall through the basecaller's quality control.
	Failed     float64
	SampleID   string
	Experiment string
	Kit        string // that barcodes are of; empty: SQK-NBD114-96
	Model      string // basecalling model that reads are said to be called by
}

// R1041 is what a MinION flow cell of R10.4.1 does, called by Dorado.
func R1041() Config {
	return Config{
		Channels: 512, Speed: 400, Capture: 2 * time.Second, MinLength: 20, Duration: 3 * time.Minute, Failed: 0.05,
		SampleID: "sample", Experiment: "simulated", Model: "dna_r10.4.1_e8.2_400bps_hac@v5.0.0",
		Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// maxChannels is more than any device has.
const maxChannels = 1_000_000

// Validate says what is wrong with a configuration.
func (c *Config) Validate() error {
	switch {
	case len(c.Samples) == 0:
		return errors.New("no sample")
	case c.Profile == nil:
		return errors.New("no profile of errors")
	case c.Channels < 1 || c.Channels > maxChannels:
		return fmt.Errorf("%d channels: want 1 to %d", c.Channels, maxChannels)
	case !(c.Speed >= 1 && c.Speed <= 1e6):
		return fmt.Errorf("a speed of %g: want 1 to 1,000,000 bases per second", c.Speed)
	case c.Capture < time.Millisecond:
		return fmt.Errorf("a capture every %v: want a millisecond at least", c.Capture)
	case c.Duration <= 0 || c.Duration > 1000*time.Hour:
		return fmt.Errorf("a duration of %v: want more than 0, up to 1000h", c.Duration)
	case c.MinLength < 1:
		return fmt.Errorf("a least length of %d: want 1 base at least", c.MinLength)
	case !(c.Failed >= 0 && c.Failed < 1):
		return fmt.Errorf("a share of failed reads of %g: want 0 to less than 1", c.Failed)
	}
	for _, s := range c.Samples {
		if !(s.Share > 0) || s.Library == nil {
			return fmt.Errorf("sample %q: a share of %g: want more than 0", s.Barcode, s.Share)
		}
	}
	return nil
}

// Run is a run whose reads are drawn one after the other.
type Run struct {
	cfg      Config
	maker    *simulate.Maker
	key      [32]byte // of identifiers
	shares   float64
	channels *queue.Queue[*channel] // by when the strands under way end
	number   int
	buf      simulate.Read
}

// channel is a pore with the strand that is in it. Times are since the run's start.
type channel struct {
	number     uint32 // from 1
	reads      uint32
	rnd        *seeded.Source
	sample     *Sample
	molecule   simulate.Molecule
	start, end time.Duration
}

// Read is a read when it has ended.
type Read struct {
	ID      string // a UUID
	Origin  string // see simulate.ParseName
	Barcode string // empty: none was found
	Failed  bool   // in the basecaller's quality control
	Channel uint32 // from 1
	Number  uint32 // on its channel, from 1
	// Start and End are since the run's start.
	Start, End time.Duration
	Sequence   []byte // letters A, C, G and T
	Qualities  []byte // Phred scores
}

// Sum is a checksum of the read's bases.
func (r *Read) Sum() uint32 { return crc32.ChecksumIEEE(r.Sequence) }

// meanQuality is the mean probability of an error as a Phred score, as basecallers report it.
func (r *Read) meanQuality() float64 {
	sum := 0.0
	for _, q := range r.Qualities {
		sum += math.Pow(10, -float64(q)/10)
	}
	return -10 * math.Log10(sum/float64(len(r.Qualities)))
}

// NewRun begins a run.
func NewRun(cfg Config) (*Run, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("simulating a run: %w", err)
	}
	if cfg.Kit == "" {
		cfg.Kit = "SQK-NBD114-96"
	}
	r := &Run{cfg: cfg, maker: simulate.NewMaker(cfg.Profile, cfg.Seed)}
	r.channels = queue.New(func(a, b *channel) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.number, b.number)) })
	r.key = sha256.Sum256(fmt.Appendf(nil, "porestream run folder 1\n%d\n%s", cfg.Seed, cfg.Settings))
	for i := range cfg.Samples {
		r.shares += cfg.Samples[i].Share
	}
	for n := range cfg.Channels {
		c := &channel{number: uint32(n + 1), rnd: seeded.New(cfg.Seed, channelPurpose, uint64(n))}
		more, err := r.capture(c)
		if err != nil {
			return nil, err
		}
		if more {
			r.channels.Push(c)
		}
	}
	return r, nil
}

// capture has a channel draw its next strand, and reports whether it gets one that is kept
// before the run is stopped.
func (r *Run) capture(c *channel) (bool, error) {
	for {
		c.start = c.end + time.Duration(c.rnd.ExpFloat64()*float64(r.cfg.Capture))
		if c.start >= r.cfg.Duration {
			return false, nil
		}
		at := c.rnd.Float64() * r.shares
		i := 0
		for i < len(r.cfg.Samples)-1 && at >= r.cfg.Samples[i].Share {
			at -= r.cfg.Samples[i].Share
			i++
		}
		c.sample = &r.cfg.Samples[i]
		var err error
		if c.molecule, err = c.sample.Library.Draw(c.rnd.Rand); err != nil {
			return false, err
		}
		c.end = c.start + r.passing(c.molecule.Length)
		if c.end > r.cfg.Duration {
			r.cut(c)
		}
		if c.molecule.Length >= r.cfg.MinLength {
			return true, nil
		}
	}
}

// passing is how long a strand takes.
func (r *Run) passing(bases int) time.Duration {
	return time.Duration(float64(bases) / r.cfg.Speed * float64(time.Second))
}

// cut leaves of a strand what passes before the run is stopped.
func (r *Run) cut(c *channel) {
	m := &c.molecule
	passed := min(int((r.cfg.Duration-c.start).Seconds()*r.cfg.Speed), m.Length)
	if m.Reverse { // whose far end passes first
		m.Start = (m.Start + m.Length - passed) % len(m.Haplotype.Seq)
	}
	m.Length, c.end = passed, r.cfg.Duration
}

// Next returns the read that ends next, the caller's to keep; false when the run is over.
func (r *Run) Next() (*Read, bool, error) {
	if r.channels.Len() == 0 {
		return nil, false, nil
	}
	c := r.channels.First()
	c.reads++
	r.maker.Make(&c.molecule, r.number, &r.buf)
	read := &Read{
		ID: r.id(uint64(r.number)), Origin: r.buf.Name, Barcode: c.sample.Barcode, Channel: c.number, Number: c.reads, Start: c.start, End: c.end,
		Sequence: append([]byte(nil), r.buf.Seq...), Qualities: append([]byte(nil), r.buf.Qualities...),
		Failed: seeded.New(r.cfg.Seed, readPurpose, uint64(r.number)).Float64() < r.cfg.Failed,
	}
	r.number++
	more, err := r.capture(c)
	switch {
	case err != nil:
		return nil, false, err
	case more:
		r.channels.Fix()
	default:
		r.channels.Drop()
	}
	if len(read.Sequence) == 0 { // all of a short strand was missed
		return r.Next()
	}
	return read, true, nil
}

// id returns the UUID of a number, of version 8: made by an application.
func (r *Run) id(number uint64) string {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(r.key[:len(r.key):len(r.key)], number))
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ID is the acquisition run's identifier.
func (r *Run) ID() string { return r.id(math.MaxUint64) }

func (r *Run) protocolID() string { return r.id(math.MaxUint64 - 1) }
func (r *Run) flowCell() string   { return "SIM" + hex.EncodeToString(r.key[:3])[:5] }
func (r *Run) position() string   { return "SIM" + hex.EncodeToString(r.key[3:6])[:5] }
func (r *Run) at(t time.Duration) string {
	return r.cfg.Start.Add(t).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// suffix is how the names of the run's files end, before their numbers.
func (r *Run) suffix() string { return r.protocolID()[:8] + "_" + r.ID()[:8] }

// Barcoded reports whether any sample has a barcode. If one has, each read is labelled with
// its barcode, or as one whose barcode was not found.
func (r *Run) Barcoded() bool {
	for _, s := range r.cfg.Samples {
		if s.Barcode != "" {
			return true
		}
	}
	return false
}
