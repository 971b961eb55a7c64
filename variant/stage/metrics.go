package stage

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// Metrics counts the stage's work. A nil *Metrics counts nothing.
type Metrics struct {
	segments           *prometheus.CounterVec
	revisions          *prometheus.CounterVec
	alleles            *prometheus.CounterVec
	models             *prometheus.CounterVec
	leftOut            *prometheus.CounterVec
	coverages          prometheus.Counter
	reference          prometheus.Gauge
	referenceRevisions prometheus.Counter
	carryOvers         prometheus.Counter
	motifs             motifMetrics
	deadLetters        *prometheus.CounterVec
}

// NewMetrics registers the metrics with reg. deadLetters counts by stage and
// code and is shared by all stages.
func NewMetrics(reg prometheus.Registerer, deadLetters *prometheus.CounterVec) *Metrics {
	m := &Metrics{
		segments: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_variant_segments_total",
			Help: "Read segments taken in; partial ones are of reads that were still in the pore, uncertain ones map too ambiguously to be called from, ignored ones were applied before.",
		}, []string{"result"}),
		revisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_variant_revisions_total",
			Help: "Call revisions emitted, by the status they give the call.",
		}, []string{"status"}),
		alleles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_variant_alleles_total",
			Help: "Alleles called for the first time, by type.",
		}, []string{"type"}),
		models: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_variant_model_segments_total",
			Help: "Read segments applied, by whether the variant model is for their basecalling model: matched, mismatched, unnamed (the read names none), untold (the variant model names none).",
		}, []string{"match"}),
		leftOut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_variant_left_out_haplotypes_total",
			Help: "Haplotypes of neighbouring alleles not put to reads, by the bound that left them out: alleles, combinations, proposals of reads; wide are clusters too wide for these.",
		}, []string{"bound"}),
		coverages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "porestream_variant_coverage_revisions_total",
			Help: "Revisions of the coverage of panels' targets emitted.",
		}),
		reference: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "porestream_variant_reference_bases", Help: "Length of the reference.",
		}),
		referenceRevisions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "porestream_variant_reference_revisions_total",
			Help: "Revisions of what is reported of places without a variant (--gvcf, --callable) emitted, by stretches of 4,096 positions.",
		}),
		carryOvers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "porestream_variant_carry_over_unassessed_runs_total",
			Help: "Runs with negative controls whose samples were called with too many alleles for carry-over to be assessed.",
		}),
		deadLetters: deadLetters,
	}
	m.motifs = newMotifMetrics(reg)
	reg.MustRegister(m.segments, m.revisions, m.alleles, m.models, m.leftOut, m.coverages, m.reference, m.referenceRevisions, m.carryOvers)
	for _, result := range []string{"applied", "partial", "uncertain", "ignored"} {
		m.segments.WithLabelValues(result)
	}
	m.omitted(variant.LeftOut{})
	for match := variant.Undeclared; match <= variant.Mismatched; match++ {
		m.models.WithLabelValues(match.String())
	}
	for _, t := range []string{typeSNP, typeInsertion, typeDeletion, typeComplex} {
		m.alleles.WithLabelValues(t)
	}
	for status, name := range streampb.CallStatus_name {
		if status != 0 {
			m.revisions.WithLabelValues(strings.ToLower(name))
		}
	}
	return m
}

// against notes what variants are called against.
func (m *Metrics) against(g *genome.Genome) {
	if m == nil {
		return
	}
	bases := 0
	for _, name := range g.Names() {
		bases += len(g.Contig(name).Seq)
	}
	m.reference.Set(float64(bases))
}

func (m *Metrics) segment(changed, uncertain, partial bool) {
	switch {
	case m == nil:
	case !changed:
		m.segments.WithLabelValues("ignored").Inc()
	case partial:
		m.segments.WithLabelValues("partial").Inc()
	case uncertain:
		m.segments.WithLabelValues("uncertain").Inc()
	default:
		m.segments.WithLabelValues("applied").Inc()
	}
}

func (m *Metrics) calledBy(match variant.Match) {
	if m != nil {
		m.models.WithLabelValues(match.String()).Inc()
	}
}

// omitted counts what evaluations left out.
func (m *Metrics) omitted(n variant.LeftOut) {
	if m == nil {
		return
	}
	m.leftOut.WithLabelValues("alleles").Add(float64(n.Alleles))
	m.leftOut.WithLabelValues("combinations").Add(float64(n.Combinations))
	m.leftOut.WithLabelValues("proposals").Add(float64(n.Proposals))
	m.leftOut.WithLabelValues("wide").Add(float64(n.Wide))
}

func (m *Metrics) referenceEmitted() {
	if m != nil {
		m.referenceRevisions.Inc()
	}
}

func (m *Metrics) call(c *streampb.Call) {
	if m == nil {
		return
	}
	m.revisions.WithLabelValues(strings.ToLower(c.GetStatus().String())).Inc()
	m.motifs.call(c)
	if c.GetRevision() == 1 {
		m.alleles.WithLabelValues(alleleType(c.GetRef(), c.GetAlt())).Inc()
	}
}

// motifMetrics report motifs that reads of one strand get wrong.
type motifMetrics struct {
	alleles         *prometheus.CounterVec
	sites, affected *prometheus.GaugeVec
	share           *prometheus.GaugeVec
	named           *motifNames
}

// motifNames bounds how many motifs are distinguished.
type motifNames struct {
	mu    sync.Mutex
	known map[string]bool
}

// maxMotifNames is how many motifs metrics name; any further one is otherMotif.
const (
	maxMotifNames = 32
	otherMotif    = "other"
)

// of is the name of a motif in metrics.
func (n *motifNames) of(motif string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known[motif] && len(n.known) >= maxMotifNames {
		return otherMotif
	}
	n.known[motif] = true
	return motif
}

func newMotifMetrics(reg prometheus.Registerer) motifMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"motif"})
	}
	m := motifMetrics{
		alleles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_variant_motif_revisions_total",
			Help: "Revisions of calls with the filter MotifArtifact emitted, by the motif that reads of one strand get wrong.",
		}, []string{"motif"}),
		sites:    gauge("porestream_variant_motif_sites", "Sites of a motif in the region where it marked a call last."),
		affected: gauge("porestream_variant_motif_affected_sites", "Of these sites, those where reads of one strand are wrong."),
		share:    gauge("porestream_variant_motif_wrong_ratio", "Share of that strand's reads at affected sites that are wrong."),
		named:    &motifNames{known: make(map[string]bool)},
	}
	reg.MustRegister(m.alleles, m.sites, m.affected, m.share)
	return m
}

func (m *motifMetrics) call(c *streampb.Call) {
	e := c.GetMotif()
	if e == nil || c.GetStatus() == streampb.CallStatus_RETRACTED {
		return
	}
	name := m.named.of(e.GetMotif())
	m.alleles.WithLabelValues(name).Inc()
	m.sites.WithLabelValues(name).Set(float64(e.GetSites()))
	m.affected.WithLabelValues(name).Set(float64(e.GetAffected()))
	m.share.WithLabelValues(name).Set(float64(e.GetWrong()) / float64(max(1, e.GetReads())))
}

// Types of alleles as metrics name them.
const (
	typeSNP       = "snp"
	typeInsertion = "insertion"
	typeDeletion  = "deletion"
	typeComplex   = "complex"
)

// alleleType is the type of an allele in VCF's spelling, where an insertion or
// deletion shares the base before it with the reference.
func alleleType(ref, alt string) string {
	switch {
	case len(ref) == 1 && len(alt) == 1:
		return typeSNP
	case len(ref) == 1 && strings.HasPrefix(alt, ref):
		return typeInsertion
	case len(alt) == 1 && strings.HasPrefix(ref, alt):
		return typeDeletion
	}
	return typeComplex
}

func (m *Metrics) coverage() {
	if m != nil {
		m.coverages.Inc()
	}
}

func (m *Metrics) deadLetter(err error) {
	if m != nil {
		m.deadLetters.WithLabelValues(Name, stream.ErrorCode(err)).Inc()
	}
}

// carryOverTooMany counts a run of which nothing is assessed.
func (m *Metrics) carryOverTooMany() {
	if m != nil {
		m.carryOvers.Inc()
	}
}
