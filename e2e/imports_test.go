package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/porestream/porestream/"

// TestImports holds the packages to the direction that DESIGN.md gives their
// dependencies.
func TestImports(t *testing.T) {
	const (
		kafkaGo  = "github.com/segmentio/kafka-go"
		kfake    = "github.com/twmb/franz-go"
		ort      = "github.com/yalue/onnxruntime_go"
		cobra    = "github.com/spf13/cobra"
		services = module + "internal/"
	)
	list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...")
	list.Dir = root()
	out, err := list.Output()
	require.NoError(t, err)
	dependencies := make(map[string][]string) // of each package, and theirs
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		dependencies[words[0]] = words[1:]
	}
	for _, tt := range []struct {
		pkg, reason string
		forbidden   []string
	}{
		{"signal", "readers know nothing of transport or engines", []string{kafkaGo, kfake, ort, services}},
		{"signal/fast5", "readers know nothing of transport or engines, and not of each other", []string{kafkaGo, kfake, ort, services, module + "signal/pod5", module + "signal/blow5"}},
		{"signal/hdf5", "the format knows nothing of what is kept in it", []string{kafkaGo, kfake, ort, services, module + "signal/fast5", "net"}},
		{"signal/internal/svb32", "integers are unpacked without anything else", []string{module + "signal/fast5", module + "signal/pod5", "net"}},
		{"signal/convert", "files are converted without transport or engines", []string{kafkaGo, kfake, ort, services}},
		{"signal/check", "files are checked without transport or engines", []string{kafkaGo, kfake, ort, services}},
		{"stream", "record types are pure", []string{kafkaGo, kfake, ort, services, "net/http"}},
		{"metric", "metrics know nothing of what they count", []string{module + "stream", module + "basecall", kafkaGo, kfake, ort, services, cobra}},
		{"stream/packed", "kept state is pure", []string{kafkaGo, kfake, ort, services, module + "stream/kafka"}},
		{"stream/snapshot", "snapshots are pure", []string{kafkaGo, kfake, ort, services, "net/http", "github.com/prometheus"}},
		{"stream/access", "rights are pure", []string{kafkaGo, kfake, ort, services, "net/http"}},
		{"stream/trace", "spans are told without knowing who hears of them", []string{kafkaGo, kfake, ort, services, "net/http", "go.opentelemetry.io", "github.com/prometheus"}},
		{"internal/tracing", "spans are sent whatever they are about", []string{kfake, ort, module + "basecall", module + "variant", module + "ingest", module + "internal/processor"}},
		{"internal/operator", "operators need no engine and no test broker", []string{kfake, ort, cobra}},
		{"stream/partition", "decisions need no network", []string{kafkaGo, kfake, ort, services, "net", "os/exec"}},
		{"stream/kafka", "the client knows no engine and no test broker", []string{kfake, ort, services}},
		{"align", "segments are pure; cgo is in align/minimap", []string{kafkaGo, ort, services, "runtime/cgo"}},
		{"adaptive", "policies are pure", []string{kafkaGo, kfake, ort, services, "runtime/cgo", "net/http", "github.com/prometheus"}},
		{"align/primer", "schemes are read and applied without transport or engines", []string{kafkaGo, kfake, ort, services, cobra, "runtime/cgo", module + "basecall", module + "variant"}},
		{"align/hts", "alignments are written without an aligner", []string{kafkaGo, kfake, ort, services, cobra, module + "align/minimap", module + "basecall"}},
		{"align/hts/cram", "CRAM becomes BAM without anything that reads BAM", []string{kafkaGo, kfake, ort, services, cobra, "github.com/biogo/hts", "net/http", module + "basecall", module + "genome", module + "stream"}},
		{"align/hts/cram/codec", "blocks are decompressed whatever is in them", []string{kafkaGo, kfake, ort, services, cobra, "github.com/biogo/hts", "net/http", module + "basecall", module + "genome", module + "stream", module + "textfile"}},
		{"fastq", "reads are read without anything of ours", []string{services, module + "stream", module + "align", module + "genome", module + "basecall"}},
		{"simulate", "simulating is pure, and shares nothing with the callers that it judges", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "runtime/cgo", module + "variant", module + "basecall"}},
		{"simulate/squiggle", "current is made of a table and numbers alone", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "runtime/cgo", module + "signal", module + "variant", module + "basecall"}},
		{"simulate/eventalign", "current is aligned by levels and numbers alone", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "runtime/cgo", module + "signal", module + "variant", module + "basecall", module + "simulate/squiggle"}},
		{"simulate/flowcell", "a virtual flow cell shares nothing with what is tried on it", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "runtime/cgo", module + "variant", module + "basecall", module + "demux"}},
		{"simulate/runfolder", "a folder is written by nothing that reads it", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "runtime/cgo", module + "variant", module + "basecall"}},
		{"internal/porefit", "pores are measured without an engine", []string{kafkaGo, kfake, ort, cobra, "net/http", module + "variant", module + "basecall", module + "demux"}},
		{"internal/simulation", "the simulators' shell needs no engine", []string{kfake, ort, module + "variant", module + "basecall"}},
		{"variant", "calling is pure", []string{"github.com/biogo/hts", kafkaGo, ort, services, "runtime/cgo"}},
		{"variant/consensus", "a consensus is made of what was called, by whomever", []string{kafkaGo, kfake, ort, services, cobra, "runtime/cgo", module + "stream", module + "align"}},
		{"variant/phase", "phasing knows nothing but alleles", []string{kafkaGo, kfake, ort, services, "runtime/cgo", module + "stream", module + "align"}},
		{"variant/network", "networks judge without transport", []string{kafkaGo, kfake, services, cobra}},
		{"modelfile/folder", "folders are read without an engine", []string{kafkaGo, kfake, ort, services, cobra, module + "basecall", module + "variant"}},
		{"variant/carryover", "what explains an allele follows from counts of reads", []string{kafkaGo, kfake, ort, services, cobra, "runtime/cgo", module + "stream", module + "align", module + "annotate", module + "basecall"}},
		{"modelfile/calibration", "a curve is a curve", []string{kafkaGo, kfake, ort, services, cobra, module + "basecall", module + "variant", module + "modelfile/folder"}},
		{"models/rules", "rules name models, and open none", []string{kafkaGo, kfake, ort, services, cobra, module + "basecall", module + "variant", module + "stream", "net/http"}},
		{"models/pool", "a pool knows nothing of what it keeps", []string{kafkaGo, kfake, ort, services, cobra, module + "basecall", module + "stream", module + "signal", module + "models/rules"}},
		{"modelfile/modelname", "a name is a name", []string{kafkaGo, kfake, ort, services, cobra, module + "basecall", module + "variant", module + "stream", module + "modelfile/folder"}},
		{"variant/eval", "comparing is pure", []string{kafkaGo, kfake, ort, services, cobra, "runtime/cgo", "net/http", module + "stream", module + "annotate"}},
		{"variant/aligned", "files are called without transport", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "github.com/prometheus"}},
		{"annotate", "consequences are pure", []string{kafkaGo, ort, services, "runtime/cgo"}},
		{"annotate/haplotype", "consequences are pure", []string{kafkaGo, ort, services, "runtime/cgo"}},
		{"annotate/source", "stores know nothing of transport", []string{kafkaGo, ort, services, "runtime/cgo"}},
		{"annotate/score", "scores are made of windows and outputs, whoever computes them", []string{kafkaGo, kfake, ort, services, cobra, "runtime/cgo", "net/http", module + "basecall", module + "stream"}},
		{"annotate/network", "networks are computed without transport", []string{kafkaGo, kfake, services, cobra, module + "stream"}},
		{"modbase/network", "modified bases are called without transport", []string{kafkaGo, kfake, services, cobra, module + "stream"}},
		{"modbase/network/convert", "models are converted without transport", []string{kafkaGo, kfake, services, cobra, module + "stream"}},
		{"annotate/function", "terms know nothing of transport", []string{kafkaGo, ort, services, "runtime/cgo"}},
		{"genes", "genes are found in sequences alone", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "runtime/cgo", module + "stream", module + "variant"}},
		{"genes/genbank", "files are read without anything of ours", []string{services, module + "genome", module + "annotate", module + "textfile", kafkaGo, kfake, ort, cobra, "net/http"}},
		{"genes/homology", "proteins are compared without transport", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "runtime/cgo", module + "stream", module + "variant"}},
		{"vcf/filter", "expressions are pure", []string{kafkaGo, ort, services, module + "annotate"}},
		{"annotate/event", "consumers decode events without an engine", []string{kafkaGo, ort, services}},
		{"watchlist", "panels are pure", []string{kafkaGo, kfake, ort, services, "runtime/cgo"}},
		{"internal/notify", "people are told without an engine", []string{kfake, ort, cobra, module + "basecall/infer", module + "align/minimap"}},
		{"annotate/diplotype", "naming alleles is pure", []string{kafkaGo, kfake, ort, services, "runtime/cgo"}},
		{"watchlist/ready", "panels are pure", []string{kafkaGo, kfake, ort, services, "runtime/cgo"}},
		{"watchlist/catalogue", "panels are pure", []string{kafkaGo, kfake, ort, services, "runtime/cgo"}},
		{"watchlist/biomarker", "what a model's numbers mean is pure", []string{kafkaGo, kfake, ort, services, "runtime/cgo"}},
		{"watchlist/network", "networks of models run without a broker", []string{kafkaGo, kfake, services}},
		{"watchlist/alert", "consumers decode alerts without a broker or a basecaller", []string{kafkaGo, kfake, ort, services, "github.com/prometheus"}},
		{"basecall/scores", "scores are numbers, whoever makes and reads them", []string{kafkaGo, ort, services, "net", "github.com/prometheus", "runtime/cgo", module + "signal", module + "basecall/infer"}},
		{"basecall/crf", "decoding is pure", []string{kafkaGo, ort, services, "net", "github.com/prometheus", "runtime/cgo", module + "signal"}},
		{"basecall/ctc", "decoding is pure", []string{kafkaGo, ort, services, "net", "github.com/prometheus", "runtime/cgo", module + "signal"}},
		{"demux", "barcodes are found in sequences alone", []string{kafkaGo, kfake, ort, services, cobra, module + "basecall", module + "signal", "net", "runtime/cgo"}},
		{"textfile", "files are read whatever is in them", []string{module + "genome", module + "vcf", module + "annotate", module + "stream", module + "basecall", kafkaGo, ort, services, "net/http"}},
		{"align/hts/samtag", "tags are read without anything of ours", []string{module + "basecall", module + "demux", kafkaGo, ort, services, "net/http"}},
		{"modbase", "tags of modified bases are text and bytes", []string{kafkaGo, kfake, ort, services, cobra, "github.com/biogo/hts", "net/http", "runtime/cgo", module + "stream", module + "basecall", module + "align"}},
		{"modbase/record", "records are kept true without an engine", []string{kafkaGo, kfake, ort, services, cobra, "net/http", module + "stream", module + "basecall"}},
		{"modbase/pileup", "counting is pure", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "runtime/cgo", "os/exec", module + "stream", module + "basecall", module + "variant", module + "align"}},
		{"modbase/motif", "counts become motifs without anything around", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "runtime/cgo", "os/exec", module + "stream", module + "basecall", module + "variant", module + "align"}},
		{"modbase/panel", "counts become answers without anything around", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "runtime/cgo", "os/exec", module + "stream", module + "basecall", module + "variant", module + "align"}},
		{"modbase/aligned", "files are counted without transport or engine", []string{kafkaGo, kfake, ort, cobra, "net/http", "github.com/prometheus", module + "basecall", module + "variant", module + "align/minimap"}},
		{"demux/sorted", "files are sorted without an engine", []string{kafkaGo, kfake, ort, services, cobra, module + "basecall", "net/http"}},
		{"basecall/finish", "reads are finished without transport", []string{kafkaGo, kfake, services, cobra}},
		{"basecall/input", "called reads are read without an engine", []string{kafkaGo, kfake, ort, services, cobra, module + "stream", module + "signal", "github.com/biogo/hts", "net/http"}},
		{"basecall/eval", "reads are judged in pure code", []string{kafkaGo, kfake, ort, services, cobra, "runtime/cgo", "net/http", module + "signal", module + "align/minimap", "github.com/biogo/hts"}},
		{"basecall/convert/torch", "files of tensors are read without an engine", []string{kafkaGo, ort, services, "net", "github.com/prometheus", "os/exec"}},
		{"basecall/convert", "models are converted without transport", []string{kafkaGo, kfake, services, cobra}},
		{"basecall/half", "numbers are converted without anything else", []string{kafkaGo, kfake, ort, services, cobra, "net", "runtime/cgo", module + "basecall/infer"}},
		{"basecall/kernels", "layers are packed without an engine", []string{kafkaGo, kfake, ort, services, cobra, "net", "runtime/cgo", module + "basecall/infer"}},
		{"basecall", "the engine knows no transport", []string{kafkaGo, kfake, services}},
		{"adaptive/stage", "stages meet Kafka only through stream", []string{kafkaGo, kfake, services}},
		{"basecall/stage", "stages meet Kafka only through stream", []string{kafkaGo, kfake, services}},
		{"align/stage", "stages meet Kafka only through stream", []string{kafkaGo, kfake, services, module + "basecall/stage", module + "align/minimap"}},
		{"variant/stage", "stages meet Kafka only through stream", []string{kafkaGo, kfake, ort, services}},
		{"annotate/stage", "stages meet Kafka only through stream", []string{kafkaGo, kfake, ort, services}},
		{"modbase/stage", "stages meet Kafka only through stream", []string{kafkaGo, kfake, ort, services}},
		{"watchlist/stage", "stages meet Kafka only through stream", []string{kafkaGo, kfake, ort, services}},
		{"variant/stage", "targets are stretches: calling knows nothing of panels", []string{module + "annotate"}},
		{"ingest/spool", "a log on disk knows nothing of what it holds", []string{kafkaGo, module + "stream", module + "signal"}},
		{"push", "devices need nothing of the pipeline but how samples are packed", []string{kafkaGo, kfake, ort, services, cobra, module + "stream", "github.com/prometheus"}},
		{"push/pushpb", "the contract stands for itself", []string{kafkaGo, kfake, ort, services, cobra, module + "stream", module + "signal"}},
		{"ingest/push", "the server meets Kafka only through package ingest", []string{kafkaGo, kfake, ort, cobra, module + "stream/kafka"}},
		{"chaos/check", "the judge shares no Kafka code with what it judges", []string{kafkaGo, kfake, ort, services}},
		{"chaos/observe", "watching shares no Kafka code with what is watched", []string{kafkaGo, ort, services}},
		{"deploy/sizing", "sizes are worked out without a network", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "os/exec"}},
		{"chaos/load", "a load needs no engine", []string{ort, module + "variant"}},
		{"chaos/load/sequencer", "the sequencer shares nothing with what it feeds but MinKNOW's messages", []string{kafkaGo, kfake, ort, cobra, module + "stream", module + "signal"}},
		{"chaos/load/tally", "counting is pure", []string{kafkaGo, kfake, ort, services, module + "stream", module + "signal"}},
		{"ingest/folder", "what is found in folders goes to Kafka through ingest", []string{kafkaGo, kfake, ort, module + "stream/kafka", module + "variant"}},
		{"basecall/bench/gpu", "counters of a GPU are read without an engine", []string{kafkaGo, kfake, ort, services, cobra, "net/http", module + "basecall/infer", module + "signal"}},
		{"basecall/bench", "measuring the engine needs nothing around it", []string{kafkaGo, kfake, services, cobra, module + "stream", module + "align"}},
		{"ingest", "playing a recording needs no engine", []string{kafkaGo, ort}},
		{"ingest/contain", "a guard knows nothing of what it guards", []string{kafkaGo, kfake, ort, cobra, module + "stream", module + "signal"}},
		{"ingest/sources", "sources are supervised whatever they are", []string{kafkaGo, kfake, ort, cobra, module + "stream/kafka", module + "ingest/push", module + "ingest/folder", module + "ingest/minknow"}},
		{"ingest/minknow", "a source meets Kafka only through ingest", []string{kafkaGo, kfake, ort, module + "stream/kafka", module + "ingest/cluster", cobra}},
		{"ingest/minknow/minknowsim", "the sequencer's side knows nothing of ingest", []string{kafkaGo, kfake, ort, module + "stream"}},
		{"monitor", "the picture is a fold of records, without transport, clock or engine", []string{kafkaGo, kfake, ort, services, cobra, "net/http", "github.com/prometheus", "runtime/cgo"}},
		{"monitor/report", "reports are made beside the pipeline, and sent by whoever has a client", []string{kafkaGo, kfake, ort, services, cobra, module + "stream/kafka"}},
		{"monitor/page", "the page is served without transport or engine", []string{kafkaGo, kfake, ort, cobra, module + "stream/kafka", module + "basecall", module + "variant"}},
		{"version", "what was built knows nothing of what it is", []string{kafkaGo, kfake, ort, cobra, services + "cli", module + "monitor/ops", module + "stream"}},
		{"internal/cli/manual", "manuals are made of definitions alone", []string{kafkaGo, kfake, ort, module + "monitor/ops", module + "stream", "net/http"}},
		{"cmd/ingest", "the ingest service carries no engine and no broker", []string{ort, kfake, module + "variant"}},
		{"monitor/page", "the page's server drives no browser, and knows no client of Kafka", []string{kafkaGo, kfake, ort, cobra, "github.com/chromedp", module + "stream/kafka"}},
		{"monitor/page/pagetest", "scenes need no pipeline", []string{kafkaGo, kfake, ort, services, cobra, "github.com/chromedp"}},
		{"cmd/pore", "no program carries the tests' browser", []string{"github.com/chromedp"}},
		{"cmd/processor", "the processor carries no broker", []string{kfake}},
	} {
		t.Run(tt.pkg, func(t *testing.T) {
			imported, found := dependencies[module+tt.pkg]
			require.True(t, found, "there is no such package")
			for _, dep := range imported {
				switch dep {
				case module + "stream/planted": // hooks, compiled away
					continue
				case module + "wholefile", module + "filelock": // how files are written, whatever is in them
					continue
				}
				for _, f := range tt.forbidden {
					require.False(t, strings.HasPrefix(dep, f), "%s imports %s: %s", tt.pkg, dep, tt.reason)
				}
			}
		})
	}
}
