package folder

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what is found in folders. A nil *Metrics counts nothing.
type Metrics struct {
	files                          *prometheus.GaugeVec
	known, late                    prometheus.Counter
	broken, folders, journal, gone prometheus.Counter
	unfinished, skipped            prometheus.Counter
	left                           *prometheus.CounterVec
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		files: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "porestream_ingest_watch_files", Help: "Files of reads in the watched folders: growing, read to their end (finished), or broken.",
		}, []string{"state"}),
		known: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "porestream_ingest_watch_known_reads_total", Help: "Reads that were found again, in the same or another file, and not sent again.",
		}),
		late: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "porestream_ingest_watch_late_reads_total", Help: "Reads that were found after their run had ended, and not sent.",
		}),
		unfinished: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "porestream_ingest_watch_unfinished_files_total", Help: "Files that were not finished when their run ended.",
		}),
	}
	m.left = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_ingest_watch_left_out_reads_total", Help: "Called reads that were left out: failed in the basecaller's quality control; empty, without a base; duplex_parent, of which a duplex read was made, which is taken.",
	}, []string{"why"})
	m.left.WithLabelValues("failed")
	m.left.WithLabelValues("empty")
	m.left.WithLabelValues("duplex_parent")
	faults := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_ingest_watch_faults_total", Help: "Files that are broken or were removed before they were read, reads that can't be used, folders that can't be listed, and attempts to write the journal that failed.",
	}, []string{"what"})
	m.broken, m.folders, m.journal = faults.WithLabelValues("file"), faults.WithLabelValues("folder"), faults.WithLabelValues("journal")
	m.gone, m.skipped = faults.WithLabelValues("gone"), faults.WithLabelValues("read")
	reg.MustRegister(m.files, m.known, m.late, m.unfinished, m.left, faults)
	return m
}

func (m *Metrics) show(c *catalog) {
	if m == nil {
		return
	}
	var n [3]int
	for _, f := range c.files {
		if f.kind == readFile {
			n[f.state]++
		}
	}
	m.files.WithLabelValues("growing").Set(float64(n[growing]))
	m.files.WithLabelValues("finished").Set(float64(n[finished]))
	m.files.WithLabelValues("broken").Set(float64(n[broken]))
}

func (m *Metrics) foundAgain(n int) {
	if m != nil {
		m.known.Add(float64(n))
	}
}

func (m *Metrics) tooLate(n int) {
	if m != nil {
		m.late.Add(float64(n))
	}
}

func (m *Metrics) brokenFile() {
	if m != nil {
		m.broken.Inc()
	}
}

func (m *Metrics) skippedRead() {
	if m != nil {
		m.skipped.Inc()
	}
}

func (m *Metrics) leftOut(why string) {
	if m != nil {
		m.left.WithLabelValues(why).Inc()
	}
}

func (m *Metrics) folderFailed() {
	if m != nil {
		m.folders.Inc()
	}
}

func (m *Metrics) goneFile() {
	if m != nil {
		m.gone.Inc()
	}
}

func (m *Metrics) journalFailed() {
	if m != nil {
		m.journal.Inc()
	}
}

func (m *Metrics) neverFinished(n int) {
	if m != nil {
		m.unfinished.Add(float64(n))
	}
}
