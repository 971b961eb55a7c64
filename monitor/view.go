package monitor

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/porestream/porestream/stream"
)

// The events of GET /api/events, by the name that the stream gives them. API.md
// describes when each is sent.
const (
	EventHello       = "hello"       // Hello
	EventSummary     = "summary"     // Summary
	EventChannels    = "channels"    // Channels
	EventDepth       = "depth"       // Depth
	EventVariants    = "variants"    // Variants
	EventAlerts      = "alerts"      // Alerts
	EventProblems    = "problems"    // Problems
	EventMethylation = "methylation" // Methylation
	// EventDiplotypes is without rows where the server has no definitions of named alleles.
	EventDiplotypes = "diplotypes" // Diplotypes
)

// Hello is the first event of every connection. Everything is sent anew after it.
type Hello struct {
	Version    string    `json:"version"`
	Instance   string    `json:"instance"` // process that serves the page
	Started    time.Time `json:"started"`
	ServerTime time.Time `json:"server_time"`
}

// Summary is the state of things in numbers, once a second.
type Summary struct {
	Now    time.Time `json:"now"`
	Health Health    `json:"health"`
	// Unreadable is what is missing from the picture: topics that can't be
	// read at the moment, each with why, in words.
	Unreadable []string    `json:"unreadable"`
	Runs       []RunView   `json:"runs"` // newest first
	Rates      Rates       `json:"rates"`
	History    History     `json:"history"`
	Latency    []Latency   `json:"latency"` // in the order of the flow
	Batch      Batch       `json:"batch"`
	Devices    []Device    `json:"devices"`
	Lag        []Lag       `json:"lag"` // in the order of the flow
	Processes  []ProcessUp `json:"processes"`
	Totals     Totals      `json:"totals"`
	// LeftOut counts what the page does not hold, because there is a limit, by what:
	// variants, problems, alerts, channels, depth, methylation, processes, runs.
	LeftOut map[string]int `json:"left_out"`
}

// What Health.State says.
const (
	HealthWaiting = "waiting" // nothing is under way
	HealthGood    = "good"    // a run is under way and everything keeps up
	HealthDone    = "done"    // all runs have ended, and everything of them is processed
	HealthWarning = "warning" // works, but somebody should check
	HealthError   = "error"   // results are late, missing or wrong until somebody acts
)

// Health is the answer to "is it all right?".
type Health struct {
	State    string `json:"state"`
	Word     string `json:"word"`     // one or two words
	Sentence string `json:"sentence"` // why
}

// RunView is one run.
type RunView struct {
	ID       string     `json:"id"`
	Sample   string     `json:"sample"`
	FlowCell string     `json:"flow_cell"`
	Kit      string     `json:"kit"`
	Position string     `json:"position"`
	State    string     `json:"state"` // running, ended, timeout or aborted
	Started  time.Time  `json:"started"`
	Ended    *time.Time `json:"ended,omitempty"`
	Reads    int64      `json:"reads"`   // sent to their last chunk; 0 if unknown
	Samples  int64      `json:"samples"` // signal samples sent; 0 if unknown
}

// Rates are over the last ten seconds.
type Rates struct {
	SamplesPerSecond float64 `json:"samples_per_second"` // basecalled
	// SequencerSamplesPerSecond is what comes in; KeepUp is what is basecalled over what
	// comes in, over the last minute. null: nothing comes in.
	SequencerSamplesPerSecond float64  `json:"sequencer_samples_per_second"`
	KeepUp                    *float64 `json:"keep_up"`
	Pace                      string   `json:"pace"` // what is to be thought of KeepUp: idle, kept, unsettled or behind
	BasesPerSecond            float64  `json:"bases_per_second"`
	ReadsPerSecond            float64  `json:"reads_per_second"`
}

// History is for sparklines. Points are SecondsPerPoint apart, oldest first; the last
// one is that of Summary.Now. The first summary of a connection has all points that
// there are (at most 180), the others the last one alone.
type History struct {
	SecondsPerPoint float64   `json:"seconds_per_point"`
	Samples         []float64 `json:"samples"`   // basecalled per second
	Sequencer       []float64 `json:"sequencer"` // signal samples that come in per second
	Bases           []float64 `json:"bases"`     // per second
	Reads           []float64 `json:"reads"`     // per second
}

// Latency is how long things took over the last minute, in seconds. P50 and P99 are
// null when there was nothing.
type Latency struct {
	Stage string   `json:"stage"` // queue, compute, basecall, variants, alerts
	Title string   `json:"title"` // what is measured, in words
	P50   *float64 `json:"p50"`
	P99   *float64 `json:"p99"`
	Count int64    `json:"count"`
}

// Batch is how well the basecalling network is fed, over the last minute.
type Batch struct {
	// Fill is the share of the computed rows that were windows and not padding; null
	// when nothing was computed.
	Fill            *float64 `json:"fill"`
	WindowsPerBatch float64  `json:"windows_per_batch"`
	QueueWindows    int64    `json:"queue_windows"` // that wait now
	ByDispatch      struct {
		Full  int64 `json:"full"`  // batches that were sent because they were full
		Delay int64 `json:"delay"` // because a window had waited long enough
		Drain int64 `json:"drain"` // because nothing else was to come
		Retry int64 `json:"retry"` // again, after a failure
	} `json:"by_dispatch"`
}

// Device is what a network runs on.
type Device struct {
	Process string `json:"process"` // instance
	Name    string `json:"name"`    // cpu, cuda:0, ...
	Kind    string `json:"kind"`    // cpu or gpu
	Model   string `json:"model"`
	// Busy is the share of the last minute in which the device computed, per session;
	// null if unknown.
	Busy *float64 `json:"busy"`
}

// Lag is what waits in a topic.
type Lag struct {
	Topic   string `json:"topic"`
	Stage   string `json:"stage"` // that reads it
	Records int64  `json:"records"`
	// Seconds is how long it takes to read what waits at the rate of the last minute;
	// null when records wait and none is read.
	Seconds *float64 `json:"seconds"`
}

// ProcessUp is a process that writes reports, or has.
type ProcessUp struct {
	Instance string    `json:"instance"`
	Kind     string    `json:"kind"` // ingest, processor or run
	Version  string    `json:"version"`
	Host     string    `json:"host"`
	Started  time.Time `json:"started"`
	// SilentSeconds is how long ago its last report was made.
	SilentSeconds float64 `json:"silent_seconds"`
	// State is up, silent (no report for 10 s) or stopped (it said that it stops).
	State   string   `json:"state"`
	Stages  []string `json:"stages"`  // with "ingest" for what sends signal
	Address string   `json:"address"` // where it can be asked for pileups; may be empty
	CPU     *float64 `json:"cpu"`     // cores used over the last ten seconds; null if unknown
	Memory  int64    `json:"memory"`  // resident bytes; 0 if unknown
}

// Totals count since the processes that are known were started.
type Totals struct {
	Reads       int64 `json:"reads"`   // basecalled
	Bases       int64 `json:"bases"`   // called
	Samples     int64 `json:"samples"` // basecalled
	Variants    int64 `json:"variants"`
	Passed      int64 `json:"passed"`       // of the variants, those that passed all filters and stand
	Alerts      int64 `json:"alerts"`       // rules of panels that say DETECTED or SUSPECTED
	DeadLetters int64 `json:"dead_letters"` // on the topic
	Gaps        int64 `json:"gaps"`         // places where signal is missing within reads
	GapSamples  int64 `json:"gap_samples"`
}

// Channels is the state of the flow cells' channels. It is sent whole, whenever
// something in it has changed, once a second at most.
type Channels struct {
	FlowCells []FlowCell `json:"flow_cells"`
}

// FlowCell is what the channels of one position do.
type FlowCell struct {
	ID       string    `json:"id"`     // unique among the flow cells
	Source   string    `json:"source"` // of ingest
	Position string    `json:"position"`
	FlowCell string    `json:"flow_cell"` // its id, if known
	Run      string    `json:"run"`
	Updated  time.Time `json:"updated"`
	// Layout is minion (512 channels, 32 columns of 16), promethion (3,000, 120 columns
	// of 25), flongle (126, 13 columns of 10) or grid: channels row by row.
	Layout  string `json:"layout"`
	Columns int    `json:"columns"`
	Rows    int    `json:"rows"`
	Count   int    `json:"count"` // channels
	// States has one letter of ChannelLegend per channel, that of channel 1 first.
	States string            `json:"states"`
	Legend map[string]string `json:"legend"` // of all letters
	// Origin is whose word the states are: the sequencer's, or what follows from the
	// signal that came, which knows strand, pore, unblocking and inactive only.
	Origin string `json:"origin"`
}

// What FlowCell.Origin says.
const (
	OriginSequencer = "sequencer"
	OriginSignal    = "signal"
)

// The letters of FlowCell.States.
const (
	ChannelStrand      = 's' // a strand passes through the pore
	ChannelAdapter     = 'a' // its adapter does
	ChannelPore        = 'p' // open pore, waiting for a strand
	ChannelUnblocking  = 'u' // a strand is being ejected
	ChannelMultiple    = 'm' // more than one pore
	ChannelSaturated   = 't'
	ChannelZero        = 'z' // no current
	ChannelNoPore      = 'n'
	ChannelUnavailable = 'x'
	ChannelInactive    = 'i' // nothing more is expected of it, or nothing has come yet
	ChannelUnknown     = '?'
)

// ChannelLegend names the letters of FlowCell.States.
func ChannelLegend() map[string]string {
	return map[string]string{
		"s": "strand", "a": "adapter", "p": "pore", "u": "unblocking", "m": "multiple", "t": "saturated",
		"z": "zero", "n": "no pore", "x": "unavailable", "i": "inactive", "?": "unknown",
	}
}

// Depth is how deep the contigs are covered, at 2,000 bins a contig at most. It is
// sent when something has changed, every two seconds at most; contigs that have not
// changed are left out, except at the beginning of a connection.
type Depth struct {
	Contigs []ContigDepth `json:"contigs"`
}

// ContigDepth is the depth along a contig.
type ContigDepth struct {
	Sample string `json:"sample"`
	Name   string `json:"name"`
	Length int    `json:"length"` // bases
	Order  int    `json:"order"`  // of the contig in the reference
	DepthBins
	Mean    float64 `json:"mean"`    // over all positions
	Covered float64 `json:"covered"` // share of the bins with a read
}

// DepthBins is the mean depth of stretches of Bin bases each, from From on; the last
// one may be shorter.
type DepthBins struct {
	From   int       `json:"from"` // 0-based
	Bin    int       `json:"bin"`  // bases
	Depths []float64 `json:"depths"`
}

// DepthZoom answers GET /api/depth.
type DepthZoom struct {
	Sample string `json:"sample"`
	Contig string `json:"contig"`
	To     int    `json:"to"` // 0-based, exclusive
	DepthBins
}

// Variants are changes of the variant table: 500 rows at most, four times a second
// at most.
type Variants struct {
	Reset  bool      `json:"reset"` // forget all rows first
	Upsert []Variant `json:"upsert"`
	Remove []string  `json:"remove"` // ids
}

// Methylation names the modifications that are counted, with their sums. A page asks GET /api/methylation for the
// one that it shows. It is sent when something has changed, every two seconds at most, 500 tracks at most; tracks
// that have not changed are left out, except at the beginning of a connection.
type Methylation struct {
	Tracks []MethylationTrack `json:"tracks"`
}

// MethylationTrack is one modification along a contig of a sample.
type MethylationTrack struct {
	Sample string `json:"sample"`
	Name   string `json:"name"` // contig
	Code   string `json:"code"` // as in the tag MM
	// Haplotype is 1 or 2, of whose reads alone it is; 0: of all.
	Haplotype int `json:"haplotype,omitempty"`
	Length    int `json:"length"`   // bases; as far as there are counts, where the contig's depth isn't known
	Sites     int `json:"sites"`    // positions and strands with calls
	Modified  int `json:"modified"` // calls of this modification
	Valid     int `json:"valid"`    // calls that count
	// Stretches of 4,096 positions that have counts; Final of them are FINAL.
	Stretches int `json:"stretches"`
	Final     int `json:"final"`
	// Coarse of the stretches are known by their sums only, as there is a limit.
	Coarse  int       `json:"coarse"`
	Updated time.Time `json:"updated"`
}

// MethylationZoom answers GET /api/methylation.
type MethylationZoom struct {
	Sample string `json:"sample"`
	Contig string `json:"contig"`
	Code   string `json:"code"`
	// Haplotype as in a track.
	Haplotype int `json:"haplotype,omitempty"`
	From      int `json:"from"` // 0-based
	To        int `json:"to"`
	Bin       int `json:"bin"` // bases
	// Strands are + and -.
	Strands [2]MethylationBins `json:"strands"`
	// States has a letter for each bin: . without calls, p PROVISIONAL in a part of it, f FINAL.
	States string `json:"states"`
}

// MethylationBins are sums over the sites of a strand, one for each bin.
type MethylationBins struct {
	Modified []int `json:"modified"`
	Valid    []int `json:"valid"`
	Sites    []int `json:"sites"`
}

// Variant is a row of the variant table.
type Variant struct {
	ID       string  `json:"id"`
	Sample   string  `json:"sample"`
	Contig   string  `json:"contig"`
	Pos      int64   `json:"pos"` // 1-based, as VCF has it
	Ref      string  `json:"ref"` // cut to 50 letters with "…", like Alt
	Alt      string  `json:"alt"`
	Status   string  `json:"status"` // PROVISIONAL STABLE FINAL AMENDED RETRACTED
	Revision uint64  `json:"revision"`
	Filter   string  `json:"filter"` // PASS or names with ";"
	Qual     float64 `json:"qual"`
	Depth    int     `json:"depth"`        // reads
	AltDepth int     `json:"allele_depth"` // reads that show the allele
	Fraction float64 `json:"fraction"`     // AltDepth over Depth
	Genotype string  `json:"genotype"`     // as in VCF
	// Gene and what follows are those of the most severe consequence.
	Gene        string    `json:"gene"`
	Consequence string    `json:"consequence"` // Sequence Ontology term
	Impact      string    `json:"impact"`      // HIGH MODERATE LOW MODIFIER
	HGVSc       string    `json:"hgvs_c"`
	HGVSp       string    `json:"hgvs_p"`
	Known       string    `json:"known"` // names in sources of known variants, with ";"
	Updated     time.Time `json:"updated"`
}

// Alerts are changes of what the panels say.
type Alerts struct {
	Upsert []Alert `json:"upsert"`
}

// Alert is what one rule of a panel says of a sample, or of one allele in it.
type Alert struct {
	ID       string    `json:"id"`
	Sample   string    `json:"sample"`
	Panel    string    `json:"panel"`
	Rule     string    `json:"rule"`
	Subject  string    `json:"subject"` // allele; empty for the rule itself
	Title    string    `json:"title"`
	State    string    `json:"state"` // a watch.State
	Previous string    `json:"previous"`
	Severity string    `json:"severity"` // as the panel has it
	Evidence string    `json:"evidence"` // in words
	Updated  time.Time `json:"updated"`
}

// Diplotypes are changes of what samples have of genes.
type Diplotypes struct {
	Upsert []Diplotype `json:"upsert"`
}

// Diplotype is the named alleles that a sample has of a gene, as docs/consume/diplotypes.md describes them.
type Diplotype struct {
	ID           string   `json:"id"` // sample/gene
	Sample       string   `json:"sample"`
	Gene         string   `json:"gene"`
	Status       string   `json:"status"`     // PROVISIONAL or FINAL
	Diplotypes   []string `json:"diplotypes"` // several, if the calls don't show which; none: Reason says why
	AlsoPossible []string `json:"also_possible"`
	Unexamined   []string `json:"not_looked_at"` // alleles of which all positions are missing
	Missing      []string `json:"missing"`       // positions of which nothing, or only one copy, is known
	Positions    int      `json:"positions"`     // of the gene
	UnknownBases []string `json:"unknown_bases"`
	Reason       string   `json:"reason"`
	Definitions  string   `json:"definitions"` // their version
}

// Text is all of it in one line, in which any difference shows.
func (d *Diplotype) Text() string {
	return fmt.Sprintf("%s %q %q %q %q %q %s", d.Status, d.Diplotypes, d.AlsoPossible, d.Unexamined, d.Missing, d.UnknownBases, d.Reason)
}

// Namer names the alleles of samples by the records of the topic of variants.
type Namer interface {
	Add(rec stream.Record) error
	// Changed are genes of samples of which something else is said now, so many at most.
	Changed(most int) []Diplotype
	// LeftOut is how many samples aren't named, as there is a limit.
	LeftOut() int
}

// Problems are changes of the list of problems, which somebody should check.
type Problems struct {
	Upsert []Problem `json:"upsert"`
	Remove []string  `json:"remove"` // ids of what is over
}

// How bad a problem is.
const (
	SeverityInfo    = "info"
	SeverityWarning = "warning"
	SeverityError   = "error"
)

// Problem is something that somebody should know of, in words.
type Problem struct {
	ID       string    `json:"id"`
	Severity string    `json:"severity"`
	Title    string    `json:"title"`  // what is wrong
	Detail   string    `json:"detail"` // where, and what was said
	Do       string    `json:"do"`     // what to do about it
	Stage    string    `json:"stage"`
	Count    int64     `json:"count"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

// Detail answers GET /api/variant.
type Detail struct {
	Row Variant `json:"row"`
	// Variant is the event as it is on the topic of variants; docs/consume/variants.md
	// describes it.
	Variant   json.RawMessage `json:"variant"`
	Revisions []Revision      `json:"revisions"` // that were seen, oldest first; the last 50
	// Phased are other variants of the same phase set, the nearest 20 of those that the page holds, by position.
	Phased []Variant `json:"phased"`
	// Near are the nearest 20 sites of modified bases within 500 bases, by position.
	Near   []NearSite `json:"near"`
	Pileup *Pileup    `json:"pileup"` // null: see PileupError
	// PileupError says in words why there is no pileup.
	PileupError string `json:"pileup_error,omitempty"`
}

// NearSite is what reads say of a modification at a site, whatever their haplotype.
type NearSite struct {
	Pos      int64  `json:"pos"` // 1-based
	Strand   string `json:"strand"`
	Code     string `json:"code"`
	Modified int    `json:"modified"`
	Valid    int    `json:"valid"` // calls that count
	Final    bool   `json:"final"`
}

// Revision is one revision of a variant.
type Revision struct {
	Revision uint64    `json:"revision"`
	Status   string    `json:"status"`
	Filter   string    `json:"filter"`
	Qual     float64   `json:"qual"`
	Depth    int       `json:"depth"`
	AltDepth int       `json:"allele_depth"`
	Time     time.Time `json:"time"`
}

// Pileup is the reads around a position.
type Pileup struct {
	Contig    string      `json:"contig"`
	From      int64       `json:"from"`      // 1-based position of Reference's first base
	Reference string      `json:"reference"` // bases, upper case
	Rows      []PileupRow `json:"rows"`      // in a fixed order: by strand, then by start
	LeftOut   int         `json:"left_out"`  // reads that exceeded the limit
}

// PileupRow is one read within the stretch.
type PileupRow struct {
	Read   string `json:"read"`   // short name; the same read has the same in every pileup
	Strand string `json:"strand"` // + or -
	Start  int    `json:"start"`  // column of the first letter of Bases, 0-based
	// Bases has one letter per reference position: '.' as the reference, a base that
	// differs, or '-' where the read lacks it.
	Bases string `json:"bases"`
	// Insertions are bases that the read has besides, behind the column.
	Insertions []PileupInsertion `json:"insertions,omitempty"`
	// Quals has a Phred+33 letter per letter of Bases, that of a read's bases together where they are as the reference; empty if unknown.
	Quals string `json:"quals,omitempty"`
	MapQ  int    `json:"mapq"`
}

// PileupInsertion is bases that a read has besides the reference's.
type PileupInsertion struct {
	Column int    `json:"column"` // 0-based, of the base before
	Bases  string `json:"bases"`
}
