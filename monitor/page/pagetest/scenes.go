package pagetest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/porestream/porestream/monitor"
)

// Began is when the scenes' runs began.
func Began() time.Time { return time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC) }

// Now is the time of a scene's summary.
func Now() time.Time { return Began().Add(42 * time.Minute) }

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

func share(v float64) *float64 { return &v }

// Empty is a page before anything has happened.
func Empty() Scene {
	return Scene{
		Hello: monitor.Hello{Version: "test", Instance: "processor-1", Started: Began(), ServerTime: Now()},
		Summary: monitor.Summary{
			Now:        Now(),
			Health:     monitor.Health{State: monitor.HealthWaiting, Word: "Waiting", Sentence: "No run is under way."},
			Unreadable: []string{}, Runs: []monitor.RunView{}, Latency: []monitor.Latency{}, Devices: []monitor.Device{}, Lag: []monitor.Lag{},
			Processes: []monitor.ProcessUp{}, LeftOut: map[string]int{},
			History: monitor.History{SecondsPerPoint: 1, Samples: []float64{}, Sequencer: []float64{}, Bases: []float64{}, Reads: []float64{}},
		},
		Channels: monitor.Channels{FlowCells: []monitor.FlowCell{}}, Depth: monitor.Depth{Contigs: []monitor.ContigDepth{}},
		Alerts: []monitor.Alert{}, Problems: []monitor.Problem{},
	}
}

// Lambda is a run like the demo's: a MinION, phage lambda, a dozen variants, a panel.
func Lambda() Scene {
	s := running(Empty(), 2.1e6)
	s.Channels.FlowCells = []monitor.FlowCell{Channels("minion", 1)}
	r := random(3)
	depths := make([]float64, 1900)
	for i := range depths {
		x := float64(i) / float64(len(depths))
		depths[i] = math.Round(10*math.Max(0, 26+9*math.Sin(9*x)+4*math.Sin(31*x)+2*r.NormFloat64()-30*math.Exp(-400*x)-30*math.Exp(-400*(1-x)))) / 10
	}
	s.Depth.Contigs = []monitor.ContigDepth{{
		Sample: "lambda", Name: "J02459.1", Length: 48502, DepthBins: monitor.DepthBins{Bin: 26, Depths: depths}, Mean: 25.8, Covered: 0.998,
	}}
	for i, v := range []struct {
		pos                     int64
		ref, alt, gene, so, imp string
		c, p, status            string
	}{
		{138, "A", "G", "", "upstream_gene_variant", "MODIFIER", "", "", "STABLE"},
		{4714, "C", "T", "B", "synonymous_variant", "LOW", "B:c.282C>T", "B:p.Ala94=", "FINAL"},
		{10205, "G", "A", "V", "missense_variant", "MODERATE", "V:c.401G>A", "V:p.Gly134Asp", "STABLE"},
		{14266, "TG", "T", "H", "frameshift_variant", "HIGH", "H:c.1722del", "H:p.Val575SerfsTer9", "STABLE"},
		{20661, "G", "A", "stf", "stop_gained", "HIGH", "stf:c.612G>A", "stf:p.Trp204Ter", "PROVISIONAL"},
		{23831, "C", "T", "", "intergenic_variant", "MODIFIER", "", "", "STABLE"},
		{27133, "T", "TCA", "ea47", "frameshift_variant", "HIGH", "ea47:c.88_89insTG", "ea47:p.Ser30Ter", "STABLE"},
		{31016, "A", "C", "exo", "missense_variant", "MODERATE", "exo:c.512T>G", "exo:p.Leu171Arg", "FINAL"},
		{37589, "C", "T", "cI", "missense_variant", "MODERATE", "cI:c.352G>A", "cI:p.Glu118Lys", "STABLE"},
		{37742, "C", "T", "cI", "synonymous_variant", "LOW", "cI:c.199G>A", "cI:p.Gly67=", "AMENDED"},
		{43082, "G", "A", "P", "missense_variant", "MODERATE", "P:c.701G>A", "P:p.Arg234His", "STABLE"},
		{45618, "A", "G", "Rz", "splice_region_variant", "LOW", "Rz:c.131A>G", "Rz:p.Asn44Ser", "RETRACTED"},
	} {
		s.Variants = append(s.Variants, monitor.Variant{
			ID: fmt.Sprintf("lambda/ga4gh:VA.%02d", i), Sample: "lambda", Contig: "J02459.1", Pos: v.pos, Ref: v.ref, Alt: v.alt, Status: v.status,
			Revision: uint64(2 + i%4), Filter: "PASS", Qual: 28 + 3.1*float64(i), Depth: 18 + i, AltDepth: 17 + i, Fraction: float64(17+i) / float64(18+i), Genotype: "1",
			Gene: v.gene, Consequence: v.so, Impact: v.imp, HGVSc: v.c, HGVSp: v.p, Updated: Now().Add(-time.Duration(i) * time.Minute),
		})
	}
	s.Variants = append(s.Variants, monitor.Variant{
		ID: "lambda/ga4gh:VA.weak", Sample: "lambda", Contig: "J02459.1", Pos: 8100, Ref: "A", Alt: "AT", Status: "PROVISIONAL", Revision: 1, Filter: "LowQual;NoisyIndel",
		Qual: 4.2, Depth: 21, AltDepth: 5, Fraction: 5.0 / 21, Genotype: "1", Consequence: "frameshift_variant", Impact: "HIGH", Gene: "E", Updated: Now(),
	})
	s.Summary.Totals.Variants, s.Summary.Totals.Passed, s.Summary.Totals.Alerts = int64(len(s.Variants)), int64(len(s.Variants)-2), 2
	alert := func(id, title, state, severity, evidence string) monitor.Alert {
		return monitor.Alert{ID: id, Sample: "lambda", Panel: "phage markers", Rule: id, Title: title, State: state, Previous: "PENDING", Severity: severity, Evidence: evidence, Updated: Now()}
	}
	s.Alerts = []monitor.Alert{
		alert("ci", "Clear plaque: cI p.Glu118Lys", "DETECTED", "high", "21 of 24 reads; chance of a false alarm below 1 in 1,000,000"),
		alert("rz", "Lysis: any loss in Rz", "NEGATIVE", "low", "least depth 14; chance of a miss 1 in 5,000"),
		alert("stf", "Side tail fibres: stop in stf", "SUSPECTED", "high", "6 of 9 reads; more are needed"),
		alert("o", "Replication: O p.Gly12Val", "PENDING", "low", "depth 3 at the worst position"),
	}
	s.Detail = Detail
	return s
}

// Plate is Lambda with so many barcodes and markers of two panels, whose states follow one another.
func Plate(samples, markers int) Scene {
	s := Lambda()
	states := []string{"NEGATIVE", "NEGATIVE", "DETECTED", "NEGATIVE", "NOT_CALLABLE", "SUSPECTED", "NEGATIVE", "PENDING", "RESISTANT", "SUSCEPTIBLE", "INTERMEDIATE", "CLASSIFIED"}
	s.Alerts = nil
	for i := range samples {
		for j := range markers {
			panel := []string{"resistance", "lineages"}[2*j/markers]
			sample, rule := fmt.Sprintf("barcode%02d", i+1), fmt.Sprintf("gene%02d-K%dN", j, j)
			s.Alerts = append(s.Alerts, monitor.Alert{
				ID: sample + "/" + panel + "/" + rule + "/", Sample: sample, Panel: panel, Rule: rule, Title: rule, State: states[(i*7+j*j)%len(states)], Previous: "PENDING", Severity: "high",
				Evidence: fmt.Sprintf("%d of %d reads", j, i+j+1), Updated: Now(),
			})
		}
	}
	return s
}

// Genes is Lambda with so many barcodes and named alleles of genes, in the states that they have while a run goes on and at its end.
func Genes(samples, genes int) Scene {
	s := Lambda()
	names := []string{"CYP2B6", "CYP2C19", "CYP2C9", "CYP3A5", "CYP4F2", "DPYD", "IFNL3", "NAT2", "NUDT15", "SLCO1B1", "TPMT", "UGT1A1", "VKORC1"}
	for i := range samples {
		for j := range genes {
			d := monitor.Diplotype{Sample: fmt.Sprintf("barcode%02d", i+1), Gene: names[j], Status: "FINAL", Diplotypes: []string{fmt.Sprintf("*1/*%d", 2+(i+j)%17)}, Positions: 8 + 3*j, Definitions: "3.1"}
			d.ID = d.Sample + "/" + d.Gene
			switch (i + 3*j) % 7 {
			case 1:
				d.Diplotypes = append(d.Diplotypes, "*2/*4")
			case 2:
				d.Missing, d.AlsoPossible = []string{"rs803", "rs1021"}, []string{"*1/*10", "*2/*11", "*3/*12"}
			case 3:
				d.Diplotypes, d.UnknownBases, d.Reason = nil, []string{"rs7817"}, "bases that no allele has"
			case 4:
				d.Missing = []string{"rs803"}
			case 5:
				d.Status, d.Missing, d.Unexamined = "PROVISIONAL", []string{"rs803", "rs1021", "rs7817"}, []string{"*9"}
			}
			s.Diplotypes = append(s.Diplotypes, d)
		}
	}
	return s
}

// Large is a full PromethION flow cell and n variants on 24 contigs of two samples.
func Large(n int) Scene {
	s := running(Empty(), 12.4e6)
	s.Summary.Runs[0].Position, s.Summary.Runs[0].FlowCell, s.Summary.Runs[0].Sample = "1A", "PAQ12345", "HG002"
	s.Channels.FlowCells = []monitor.FlowCell{Channels("promethion", 1)}
	r := random(11)
	for i := range 24 {
		length := 250_000_000 - i*8_000_000
		c := monitor.ContigDepth{Sample: "HG002", Name: fmt.Sprintf("chr%d", i+1), Length: length, Order: i, Mean: 12, Covered: 0.97, DepthBins: monitor.DepthBins{Bin: length/2000 + 1}}
		for range 2000 {
			c.Depths = append(c.Depths, math.Round(math.Max(0, 12+3*r.NormFloat64())))
		}
		s.Depth.Contigs = append(s.Depth.Contigs, c)
	}
	for i := range n {
		s.Variants = append(s.Variants, largeRow(r, i))
	}
	s.Summary.Totals.Variants, s.Summary.Totals.Passed = int64(n), int64(n)
	s.Detail = Detail
	return s
}

func largeRow(r *rand.Rand, i int) monitor.Variant {
	terms := []struct{ so, impact string }{
		{"missense_variant", "MODERATE"}, {"synonymous_variant", "LOW"}, {"intron_variant", "MODIFIER"}, {"intergenic_variant", "MODIFIER"},
		{"stop_gained", "HIGH"}, {"3_prime_UTR_variant", "MODIFIER"}, {"splice_region_variant", "LOW"},
	}
	t := terms[r.IntN(len(terms))]
	depth := 4 + r.IntN(30)
	alt := 1 + r.IntN(depth)
	bases := "ACGT"
	at := r.IntN(4)
	return monitor.Variant{
		ID: fmt.Sprintf("HG002/ga4gh:VA.%06d", i), Sample: "HG002", Contig: fmt.Sprintf("chr%d", 1+i%24), Pos: 1 + r.Int64N(int64(250_000_000-i%24*8_000_000)),
		Ref: bases[at : at+1], Alt: bases[(at+1)%4 : (at+1)%4+1], Status: []string{"PROVISIONAL", "STABLE", "FINAL"}[r.IntN(3)], Revision: 1, Filter: "PASS",
		Qual: math.Round(600*r.Float64()) / 10, Depth: depth, AltDepth: alt, Fraction: float64(alt) / float64(depth), Genotype: []string{"0/1", "1/1", "0|1"}[r.IntN(3)],
		Gene: fmt.Sprintf("GENE%d", r.IntN(400)), Consequence: t.so, Impact: t.impact, HGVSc: fmt.Sprintf("ENST%08d:c.%dA>G", i, r.IntN(3000)), Updated: Began(),
	}
}

// Revise gives the rows at k places of a scene's variants, drawn by step, a new revision
// as of `at`.
func Revise(rows []monitor.Variant, k, step int, at time.Time) []monitor.Variant {
	r := random(uint64(step))
	out := make([]monitor.Variant, 0, k)
	for _, i := range r.Perm(len(rows))[:k] {
		v := rows[i]
		v.Revision++
		v.Depth += 2
		v.AltDepth++
		v.Qual += 1.5
		v.Fraction = float64(v.AltDepth) / float64(v.Depth)
		v.Updated = at
		out = append(out, v)
	}
	return out
}

// Troubled is Lambda with a processor that is silent, signal that waits, and what
// the page says of it.
func Troubled() Scene {
	s := Lambda()
	s.Summary.Health = monitor.Health{State: monitor.HealthError, Word: "Trouble", Sentence: "Processor-2 is silent, and signal of 4 minutes waits to be basecalled."}
	s.Summary.Rates.KeepUp, s.Summary.Rates.Pace = share(0.41), monitor.PaceBehind
	s.Summary.Rates.SamplesPerSecond *= 0.41
	s.Summary.Lag[0].Records, s.Summary.Lag[0].Seconds = 18204, share(252)
	s.Summary.Lag[1].Records, s.Summary.Lag[1].Seconds = 31, nil
	s.Summary.Totals.DeadLetters, s.Summary.Totals.Gaps = 14, 3
	s.Summary.Processes[1].State, s.Summary.Processes[1].SilentSeconds = "silent", 74
	problem := func(id, severity, title, detail, do, stage string, count int64) monitor.Problem {
		return monitor.Problem{ID: id, Severity: severity, Title: title, Detail: detail, Do: do, Stage: stage, Count: count, First: Now().Add(-5 * time.Minute), Last: Now().Add(-time.Minute)}
	}
	s.Problems = []monitor.Problem{
		problem("gaps", monitor.SeverityInfo, "Signal is missing within 3 reads", "Channels 12, 98 and 411 of lambda; 4,100 samples.", "Nothing, if it stays at this. The reads were split at the gaps.", "basecall", 3),
		problem("dlq", monitor.SeverityWarning, "14 records can't be decoded", "basecall: code corrupt, the newest in signal/3 at offset 81,225: its checksum is wrong.", "List them with pore dlq show, and send them again with pore dlq redrive once the cause is gone.", "basecall", 14),
		problem("silent", monitor.SeverityError, "processor-2 is silent", "Its last report came 74 s ago, from host lab-b.", "See whether it runs and reaches Kafka. Its partitions go to the others by themselves.", "", 1),
	}
	return s
}

// Behind is Lambda with more signal than is basecalled, and nothing else wrong.
func Behind() Scene {
	s := Lambda()
	const ratio = 0.62
	p := monitor.Problem{
		ID: "keep-up", Severity: monitor.SeverityWarning, Title: "only 62 % of the signal that comes in is basecalled", Stage: "basecall",
		Do:    "Start another processor, or give a faster model or a GPU; more processors than partitions are idle. Nothing is lost: signal waits in Kafka for seven days.",
		First: Now().Add(-2 * time.Minute), Last: Now(),
	}
	s.Summary.Health = monitor.Health{State: monitor.HealthWarning, Word: "Falling behind", Sentence: "Only 62 % of the signal that comes in is basecalled. Start another processor, or give a faster model or a GPU; more processors than partitions are idle."}
	s.Summary.Rates.KeepUp, s.Summary.Rates.Pace = share(ratio), monitor.PaceBehind
	s.Summary.Rates.SamplesPerSecond *= ratio
	for i := range s.Summary.History.Samples[120:] {
		s.Summary.History.Samples[120+i] *= ratio
	}
	s.Summary.Lag[0].Records, s.Summary.Lag[0].Seconds = 2210, share(28)
	s.Problems = []monitor.Problem{p}
	return s
}

func running(s Scene, samples float64) Scene {
	s.Summary.Health = monitor.Health{State: monitor.HealthGood, Word: "Running", Sentence: "Everything that comes in is processed as it comes."}
	s.Summary.Runs = []monitor.RunView{{ID: "a7b1c95e", Sample: "lambda", FlowCell: "FAX00123", Kit: "SQK-LSK114", Position: "X1", State: "running", Started: Began(), Reads: 8120, Samples: 4e9}}
	s.Summary.Rates = monitor.Rates{SamplesPerSecond: samples, SequencerSamplesPerSecond: samples, KeepUp: share(1), Pace: monitor.PaceKept, BasesPerSecond: samples / 11.2, ReadsPerSecond: samples / 1.4e5}
	r := random(5)
	h := &s.Summary.History
	for i := range 180 {
		level := 1 - 0.5*math.Exp(-float64(i)/25)
		in := samples * level * (1 + 0.04*r.NormFloat64())
		out := in * (1 + 0.05*r.NormFloat64())
		h.Sequencer, h.Samples = append(h.Sequencer, in), append(h.Samples, out)
		h.Bases, h.Reads = append(h.Bases, out/11.2), append(h.Reads, math.Max(0, out/1.4e5*(1+0.15*r.NormFloat64())))
	}
	latency := func(stage, title string, p50, p99 float64) monitor.Latency {
		return monitor.Latency{Stage: stage, Title: title, P50: share(p50), P99: share(p99), Count: 4012}
	}
	s.Summary.Latency = []monitor.Latency{
		latency("queue", "window waits for a batch", 0.021, 0.09), latency("compute", "batch is computed", 0.048, 0.11),
		latency("basecall", "read's last signal to bases", 0.31, 0.82), latency("variants", "signal to variants", 0.64, 1.7), latency("alerts", "signal to alerts", 0.71, 1.9),
	}
	s.Summary.Batch.Fill, s.Summary.Batch.WindowsPerBatch, s.Summary.Batch.QueueWindows = share(0.87), 55.7, 31
	s.Summary.Batch.ByDispatch.Full, s.Summary.Batch.ByDispatch.Delay, s.Summary.Batch.ByDispatch.Drain = 812, 144, 9
	s.Summary.Devices = []monitor.Device{{Process: "processor-1", Name: "cuda:0", Kind: "gpu", Model: "dna_r10.4.1_e8.2_400bps_fast", Busy: share(0.62)}, {Process: "processor-2", Name: "cpu", Kind: "cpu", Model: "dna_r10.4.1_e8.2_400bps_fast", Busy: share(0.81)}}
	s.Summary.Lag = []monitor.Lag{{Topic: "signal", Stage: "basecall", Records: 212, Seconds: share(0.4)}, {Topic: "reads", Stage: "variant", Records: 0, Seconds: share(0)}, {Topic: "calls", Stage: "annotate", Records: 3, Seconds: share(0.1)}}
	up := func(instance, kind, host string, stages ...string) monitor.ProcessUp {
		return monitor.ProcessUp{Instance: instance, Kind: kind, Version: "test", Host: host, Started: Began(), SilentSeconds: 0.4, State: "up", Stages: stages, CPU: share(3.4), Memory: 1_420_000_000}
	}
	s.Summary.Processes = []monitor.ProcessUp{up("processor-1", "processor", "lab-a", "basecall", "variant", "annotate"), up("processor-2", "processor", "lab-b", "basecall", "variant", "annotate", "watch"), up("ingest-1", "ingest", "lab-a", "ingest")}
	s.Summary.Totals = monitor.Totals{Reads: 8034, Bases: 31_400_000, Samples: 371_000_000}
	return s
}

// Channels is a flow cell of a layout whose channels are in states drawn by step.
func Channels(layout string, step int) monitor.FlowCell {
	size := map[string][3]int{"minion": {32, 16, 512}, "promethion": {120, 25, 3000}, "flongle": {13, 10, 126}}[layout]
	r := random(uint64(step))
	fixed := random(1 << 20) // pores that are lost stay lost
	var states strings.Builder
	for range size[2] {
		lost, x := fixed.Float64(), r.Float64()
		letter := monitor.ChannelStrand
		switch {
		case lost < 0.12:
			letter = monitor.ChannelNoPore
		case lost < 0.15:
			letter = monitor.ChannelZero
		case lost < 0.17:
			letter = monitor.ChannelMultiple
		case lost < 0.18:
			letter = monitor.ChannelSaturated
		case x < 0.15:
			letter = monitor.ChannelPore
		case x < 0.19:
			letter = monitor.ChannelAdapter
		case x < 0.22:
			letter = monitor.ChannelUnblocking
		case x < 0.28:
			letter = monitor.ChannelUnavailable
		}
		states.WriteRune(letter)
	}
	return monitor.FlowCell{
		ID: "X1/a7b1c95e", Source: "sequencer", Position: "X1", FlowCell: "FAX00123", Run: "a7b1c95e", Updated: Now(), Layout: layout, Columns: size[0], Rows: size[1], Count: size[2],
		States: states.String(), Legend: monitor.ChannelLegend(), Origin: monitor.OriginSequencer,
	}
}

// Detail is what the page shows of a row, with a pileup of as many reads.
func Detail(row monitor.Variant) monitor.Detail {
	forward := row.AltDepth / 2
	refs := row.Depth - row.AltDepth
	event := map[string]any{
		"schema_version": 1, "run": "a7b1c95e6c3a4f7e", "sample": row.Sample, "revision": row.Revision, "status": row.Status,
		"variant": map[string]any{"vrs_id": strings.TrimPrefix(row.ID, row.Sample+"/"), "contig": row.Contig, "pos": row.Pos, "ref": row.Ref, "alt": row.Alt},
		"call": map[string]any{
			"qual": row.Qual, "gq": int(row.Qual), "genotype": []int{1}, "zygosity": "hemizygous", "depth": row.Depth,
			"ref_forward": refs / 2, "ref_reverse": refs - refs/2, "alt_forward": forward, "alt_reverse": row.AltDepth - forward,
		},
		"annotation": map[string]any{
			"hgvsg":        fmt.Sprintf("%s:g.%d%s>%s", row.Contig, row.Pos, row.Ref, row.Alt),
			"most_severe":  map[string]any{"term": row.Consequence, "impact": row.Impact, "gene": row.Gene, "transcript": row.Gene + "-001"},
			"consequences": []any{map[string]any{"terms": []any{map[string]any{"so": "SO:0001583", "name": row.Consequence}}, "impact": row.Impact, "hgvsp": row.HGVSp, "hgvsc": row.HGVSc, "codons": "Gag/Aag"}},
			"scores": []any{map[string]any{"network": "splicing", "sha256": strings.Repeat("0", 64), "gene": row.Gene, "score": 0.27, "changes": []any{
				map[string]any{"name": "acceptor_gain", "score": 0.15, "position": 89}, map[string]any{"name": "acceptor_loss", "score": 0.27, "position": -23},
				map[string]any{"name": "donor_gain", "score": 0, "position": -267}, map[string]any{"name": "donor_loss", "score": 0.05, "position": 193},
			}}},
			"known": []any{map[string]any{"source": "markers", "version": "2026-01", "id": "M17", "match": "exact", "fields": map[string]any{"NAME": "clear_plaque"}}},
		},
		"last_chunk_time": Now(),
	}
	text, err := json.Marshal(event)
	if err != nil {
		panic(err) // made here
	}
	d := monitor.Detail{Row: row, Variant: text, Pileup: pileup(row)}
	for i := uint64(1); i <= row.Revision; i++ {
		d.Revisions = append(d.Revisions, monitor.Revision{Revision: i, Status: row.Status, Filter: row.Filter, Qual: row.Qual * float64(i) / float64(row.Revision), Depth: row.Depth, AltDepth: row.AltDepth, Time: Now().Add(-time.Duration(row.Revision-i) * time.Minute)})
	}
	return d
}

func pileup(row monitor.Variant) *monitor.Pileup {
	const reach = 40
	r := random(uint64(row.Pos))
	reference := make([]byte, 2*reach+1)
	for i := range reference {
		reference[i] = "ACGT"[r.IntN(4)]
	}
	copy(reference[reach:], row.Ref)
	p := &monitor.Pileup{Contig: row.Contig, From: row.Pos - reach, Reference: string(reference), Rows: []monitor.PileupRow{}, LeftOut: 3}
	for i := range row.Depth {
		start, end := r.IntN(reach-5), len(reference)-r.IntN(reach-5)
		if i%3 == 0 {
			start, end = 0, len(reference)
		}
		bases := []byte(strings.Repeat(".", end-start))
		quals := make([]byte, len(bases))
		for k := range bases {
			quals[k] = byte(33 + 8 + r.IntN(30))
			switch x := r.Float64(); {
			case x < 0.02:
				bases[k] = "ACGT"[r.IntN(4)]
			case x < 0.035:
				bases[k] = '-'
			}
		}
		read := monitor.PileupRow{Read: fmt.Sprintf("r%03d", i), Strand: "+", Start: start, MapQ: 60}
		if i >= row.Depth/2 {
			read.Strand = "-"
		}
		at := reach - start
		for k := range row.Ref {
			bases[at+k] = '.'
		}
		if i%row.Depth < row.AltDepth {
			for k := range row.Ref {
				switch {
				case k >= len(row.Alt):
					bases[at+k] = '-'
				case row.Ref[k] != row.Alt[k]:
					bases[at+k] = row.Alt[k]
				}
			}
			if len(row.Alt) > len(row.Ref) {
				read.Insertions = []monitor.PileupInsertion{{Column: reach + len(row.Ref) - 1, Bases: row.Alt[len(row.Ref):]}}
			}
		}
		read.Bases, read.Quals = string(bases), string(quals)
		p.Rows = append(p.Rows, read)
	}
	return p
}
