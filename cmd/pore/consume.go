package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
	"github.com/spf13/cobra"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/modbase/panel"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/alert"
)

type consumeConfig struct {
	kafka       cli.KafkaFlags
	log         cli.LogFlags
	topic       string
	alerts      bool
	basecalls   bool
	methylation bool
	haplotype   int
	diplotypes  bool
	definitions []string
	filter      string
	format      string
	reference   string
	allele      string
	from        string
	untilEnd    bool
	panel       methylationPanel
	version     vcf.Version
}

func consumeCommand() *cobra.Command {
	var cfg consumeConfig
	cmd := &cobra.Command{
		Use:   "consume --brokers HOST:PORT [--alerts|--basecalls|--methylation|--diplotypes] [--filter EXPR] [--format text|json|vcf|gvcf|callable|table|bedmethyl|motifs|regions|vector]",
		Short: "Follow the annotated variants, the alerts of panels, called reads or modified bases on Kafka",
		Long: `Follows the variants topic and prints every revision as it appears; with --alerts
the alerts topic (docs/consume/alerts.md), and every change of a rule's state; with
--basecalls the called reads (docs/consume/basecalls.md), as FASTQ; with --methylation the
counts of modified bases (docs/consume/methylation.md), a line for each modification and stretch;
with --diplotypes what each sample has of the genes of --definitions (docs/consume/diplotypes.md),
a line whenever that changes, if the processors were started with the same --definitions.
A topic that nobody has made yet is waited for, unless with --until-end or a file's --format.
One that has records of another kind and none of these is an error, which says what they are.

--filter is an expression over the event's JSON members (docs/consume/variants.md), for
example: status == "FINAL" && call.qual > 30 && annotation.most_severe.impact == "HIGH"

--format vcf reads what is on the topic now, folds it to the newest revision of
every allele and prints one VCF; it needs --ref for the contigs. --format gvcf has
the blocks without a variant too, and --format callable is a BED of what the reads
allow to be said of each position, of samples that have ended, if the processors were
started with --gvcf and --callable. --methylation --format bedmethyl prints the newest
counts as pore pileup does, --format motifs the motifs that are modified by them, --format regions
answers to --rules on regions, and --format vector the states of --sites. --diplotypes --format table
is the table of pore diplotype, as it is now.`,
		Example: `  pore consume --brokers kafka:9092
  pore consume --brokers kafka:9092 --format json --filter 'status == "FINAL" && call.qual > 30'
  pore consume --brokers kafka:9092 --format vcf --ref ref.fa > now.vcf
  pore consume --brokers kafka:9092 --methylation --format bedmethyl --ref ref.fa > now.bed`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := consume(cmd.Context(), cfg, cmd.OutOrStdout())
			if cfg.untilEnd || cfg.isFile() {
				return err // part of it would look like all
			}
			return cli.Stopped(cmd.Context(), err)
		},
	}
	flags := cmd.Flags()
	cfg.kafka.Register(flags)
	cfg.log.Register(flags, slog.LevelWarn)
	flags.BoolVar(&cfg.alerts, "alerts", false, "follow the alerts of panels instead of the variants")
	flags.BoolVar(&cfg.basecalls, "basecalls", false, "follow the called reads instead, and print FASTQ")
	flags.BoolVar(&cfg.methylation, "methylation", false, "follow the counts of modified bases instead of the variants")
	flags.BoolVar(&cfg.diplotypes, "diplotypes", false, "follow what samples have of the genes of --definitions instead of the variants")
	flags.StringArrayVar(&cfg.definitions, "definitions", nil, "PharmCAT's definitions of a gene's named alleles, JSON, for --diplotypes; may be given several times")
	flags.IntVar(&cfg.haplotype, "haplotype", 0, "with --methylation and --format bedmethyl, regions or vector: count reads of this haplotype alone, 1 or 2, as processors with --methylation-haplotypes find it (default: all reads)")
	flags.StringVar(&cfg.topic, "topic", "", "topic to follow (default: the variants topic, with --alerts, --basecalls or --methylation theirs)")
	flags.StringVar(&cfg.filter, "filter", "", "expression that an event must satisfy")
	flags.StringVar(&cfg.format, "format", "text", "text, json, vcf, gvcf, callable, with --diplotypes table or, with --methylation, bedmethyl, motifs, regions or vector")
	cfg.panel.register(flags)
	flags.StringVar(&cfg.allele, "gvcf-allele", "*", "symbolic allele of --format gvcf: *, or NON_REF for GATK's tools")
	flags.Var(&cfg.version, "vcf-version", vcfVersionHelp)
	flags.StringVar(&cfg.reference, "ref", "", "reference genome, for --diplotypes and for --format vcf, gvcf, callable, bedmethyl, motifs, regions and vector")
	flags.StringVar(&cfg.from, "from", "start", "start, or end for what comes from now on")
	flags.BoolVar(&cfg.untilEnd, "until-end", false, "stop at the end of what is on the topic now")
	return cmd
}

func consume(ctx context.Context, cfg consumeConfig, stdout io.Writer) error {
	if err := cfg.checkTopic(); err != nil {
		return err
	}
	filter, err := compileFilter(cfg.filter)
	if err != nil {
		return err
	}
	from := map[string]kafka.Position{"start": kafka.FromStart, "end": kafka.FromEnd}
	position, ok := from[cfg.from]
	if !ok {
		return cli.Usagef("--from %q: want start or end", cfg.from)
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	kafkaConfig, err := cfg.kafka.Config(logger, nil)
	if err != nil {
		return err
	}
	if err := cfg.checkFormat(); err != nil {
		return err
	}
	if cfg.isFile() {
		if err := cfg.panel.load(); err != nil {
			return err
		}
		cfg.untilEnd = true
	}
	namer, err := cfg.namer()
	if err != nil {
		return err
	}
	client, err := kafka.Connect(ctx, kafkaConfig)
	if err != nil {
		return err
	}
	defer client.Close()
	c := consumer{cfg: &cfg, filter: filter, namer: namer, out: bufio.NewWriter(stdout), logger: logger}
	if err := c.follow(ctx, client, position); err != nil {
		return err
	}
	return c.end(ctx)
}

// consumer shows what is on one topic.
type consumer struct {
	cfg    *consumeConfig
	filter func(stream.Record) (bool, error)
	namer  *pipeline.Namer // nil without --diplotypes
	out    *bufio.Writer
	logger *slog.Logger

	asked *gate
	show  *viewer
}

// follow takes what comes from a position on, until ctx ends or, if that is asked for, until the end of what there is.
func (c *consumer) follow(ctx context.Context, client *kafka.Client, position kafka.Position) error {
	topics := stream.NewTopics(c.cfg.kafka.Prefix)
	follow := c.cfg.followed(topics)
	topic, maker := follow.topic, follow.maker
	if c.cfg.topic != "" {
		topic, maker = c.cfg.topic, ""
	}
	partitions, waited, err := c.cfg.find(ctx, client, topic, maker)
	if err != nil {
		return err
	}
	if waited {
		position = kafka.FromStart // of what was written since the command began, the topic has the first record, too
	}
	c.show = newViewer(c.out, c.cfg.format, c.namer, int32(partitions))
	c.asked = newGate(c.cfg, follow, topics, kafkaLog{client, topic}, c.logger)
	if position == kafka.FromEnd {
		if c.asked.began, err = client.Offsets(ctx, topic); err != nil {
			return err
		}
	}
	options := kafka.ConsumeOptions{From: position, UntilEnd: c.cfg.untilEnd}
	err = client.Consume(ctx, topic, options, func(rec stream.Record) error { return c.take(ctx, rec) })
	if err == nil && c.cfg.untilEnd {
		err = ctx.Err()
	}
	return err
}

// take shows what a record brings, or keeps it for the end.
func (c *consumer) take(ctx context.Context, rec stream.Record) error {
	if ok, err := c.asked.pass(ctx, rec); err != nil || !ok {
		return err
	}
	if c.cfg.basecalls {
		_, _ = c.out.Write(rec.Value) // Flush returns its error
		return c.out.Flush()
	}
	keep, err := c.filter(rec)
	switch {
	case err != nil:
		return err
	case keep:
		return c.show.take(rec, c.logger)
	}
	return c.show.withhold(rec, c.cfg.isFile(), c.logger)
}

// end writes what is written at the end: a file.
func (c *consumer) end(ctx context.Context) error {
	var err error
	switch {
	case c.cfg.format == diplotypeTable:
		known := c.show.diplotypes.Fold()
		err = c.namer.Write(c.out, known, known.Samples()...)
	case c.cfg.isFile():
		if err := c.cfg.writeFile(ctx, c.show); err != nil {
			return err
		}
	}
	return errors.Join(err, c.out.Flush())
}

// checkTopic refuses flags that choose two topics.
func (cfg *consumeConfig) checkTopic() error {
	if cfg.basecalls && (cfg.alerts || cfg.filter != "" || cfg.format != "text") {
		return cli.Usagef("--basecalls prints FASTQ: it goes with neither --alerts nor --filter nor --format")
	}
	if cfg.methylation && (cfg.alerts || cfg.basecalls) {
		return cli.Usagef("--methylation goes with neither --alerts nor --basecalls")
	}
	return nil
}

// followed is what a command follows.
type followed struct {
	flag  string // that asks for it; "" for variants
	what  string
	topic string // on which it is
	maker string // who makes that
}

// followed returns what the flags ask for.
func (cfg *consumeConfig) followed(topics stream.Topics) followed {
	switch {
	case cfg.alerts:
		return followed{"--alerts", "alerts", topics.Alerts, "processors with --panel, pore topics create --panels"}
	case cfg.basecalls:
		return followed{"--basecalls", "called reads", topics.Basecalls, "processors with --basecalls, pore topics create --basecalls"}
	case cfg.methylation:
		return followed{"--methylation", "modified bases", topics.Methylation, "processors with --methylation, pore topics create --methylation"}
	}
	return followed{"", "variants", topics.Variants, "processors, pore topics create"}
}

// find returns the number of a topic's partitions. A command that follows a topic that nobody has made yet waits for it; what is on it now is nothing
// that could be waited for.
func (cfg *consumeConfig) find(ctx context.Context, client *kafka.Client, topic, maker string) (partitions int, waited bool, err error) {
	if !cfg.untilEnd {
		return client.AwaitTopic(ctx, topic, maker)
	}
	partitions, err = client.Partitions(ctx, topic)
	if kafka.IsMissingTopic(err) {
		if like := client.Like(ctx, topic); len(like) > 0 {
			err = fmt.Errorf("%w, and there is %s", err, strings.Join(like, ", "))
		}
	}
	return partitions, false, err
}

// isFile reports whether the newest state is written as a file, and not each event as it comes.
func (cfg *consumeConfig) isFile() bool {
	_, is := consumedFiles[cfg.format]
	return is
}

// checkFormat refuses a format that isn't one of the topic, and flags of other formats.
func (cfg *consumeConfig) checkFormat() error {
	if err := cfg.checkDiplotypes(); err != nil {
		return err
	}
	switch {
	case !cfg.isFile() && cfg.format != "text" && cfg.format != "json":
		return cli.Usagef("--format %q: want text, json, vcf, gvcf, callable, table, bedmethyl, motifs, regions or vector", cfg.format)
	case cfg.panel.rules != "" && cfg.format != regionList || cfg.panel.sites != "" && cfg.format != stateList:
		return cli.Usagef("--rules goes with --format regions, and --sites with --format vector")
	case cfg.haplotype != 0 && (cfg.haplotype < 1 || cfg.haplotype > 2 || !slices.Contains(ofHaplotypes, cfg.format)):
		return cli.Usagef("--haplotype %d: want 1 or 2, and --format %s", cfg.haplotype, strings.Join(ofHaplotypes, ", "))
	case !cfg.isFile():
		return nil
	case cfg.alerts:
		return cli.Usagef("--format %s is for variants, not with --alerts", cfg.format)
	case cfg.methylation != slices.Contains(ofMethylation, cfg.format):
		return cli.Usagef("--format %s: %s go with --methylation, and with nothing else", cfg.format, strings.Join(ofMethylation, ", "))
	case cfg.format == regionList && cfg.panel.rules == "", cfg.format == stateList && cfg.panel.sites == "":
		return cli.Usagef("--format %s needs --rules for regions, --sites for a vector", cfg.format)
	case cfg.reference == "":
		return cli.Usagef("--format %s needs --ref, the reference genome", cfg.format)
	case cfg.allele != "*" && cfg.allele != "NON_REF":
		return cli.Usagef("--gvcf-allele %q: want * or NON_REF", cfg.allele)
	}
	return nil
}

// writeFile writes the newest state of the one sample that was consumed.
func (cfg *consumeConfig) writeFile(ctx context.Context, show *viewer) error {
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	samples := show.variants.Samples()
	if cfg.methylation {
		samples = show.methylation.Samples()
	}
	if len(samples) == 0 {
		return fmt.Errorf("nothing on the topic is for a file: no sample has a %s yet%s", map[bool]string{false: "call", true: "count"}[cfg.methylation],
			map[bool]string{true: " that --filter keeps"}[cfg.filter != ""])
	}
	if len(samples) != 1 {
		return fmt.Errorf("the topic holds %d samples (%q), a file takes one: choose with --filter 'sample == \"NAME\"'", len(samples), samples)
	}
	within := show.variants.Within
	if cfg.methylation {
		within = show.methylation.Within
	}
	if err := within(samples[0], g); err != nil {
		return fmt.Errorf("%s has %w", cfg.reference, err)
	}
	if !cfg.methylation {
		settings := processor.SurveySettings{Allele: cfg.allele}
		err := consumedFiles[cfg.format](show.out, g, samples[0], settings.Symbol(), cfg.version, show.variants)
		if err != nil && cfg.filter != "" {
			return fmt.Errorf("%w; or --filter leaves it out, which is asked for events of places without a call, too", err)
		}
		return err
	}
	switch cfg.format {
	case motifList:
		err = show.methylation.WriteMotifs(ctx, show.out, samples[0], g)
	case regionList, stateList:
		err = writePanel(show.out, cfg, show.methylation, samples[0], g)
	default:
		err = show.methylation.WriteBedMethyl(show.out, samples[0], cfg.haplotype, g.Rank)
	}
	return errors.Join(err, show.out.Flush()) // what there is before an error, too
}

// viewer prints new events of a public topic.
type viewer struct {
	out         *bufio.Writer
	format      string
	variants    *pipeline.Fold
	alerts      *pipeline.AlertFold
	methylation *pipeline.MethylationFold
	diplotypes  *pipeline.DiplotypeFold // nil: the others are shown
}

// newViewer shows the events of a topic of so many partitions; namer, if it isn't nil, names diplotypes by them.
func newViewer(out *bufio.Writer, format string, namer *pipeline.Namer, partitions int32) *viewer {
	v := &viewer{
		out: out, format: format, variants: pipeline.NewFold(partitions), alerts: pipeline.NewAlertFold(partitions),
		methylation: pipeline.NewMethylationFold(partitions),
	}
	if namer != nil {
		v.diplotypes = pipeline.NewDiplotypeFold(namer, partitions)
	}
	return v
}

// take prints what a record brings. One that can't be read is logged and left out.
func (w *viewer) take(rec stream.Record, logger *slog.Logger) error {
	if w.diplotypes != nil {
		named, err := w.diplotypes.Add(rec)
		return w.name(named, err, logger)
	}
	v, err := w.variants.Add(rec)
	if err == nil && v != nil {
		return w.print(v.Text(), v.JSON)
	}
	if err == nil {
		var a *watchlist.Alert
		if a, err = w.alerts.Add(rec); a != nil {
			return w.print(alert.Text(a), a.JSON)
		}
	}
	if err == nil {
		var s *methylation.Stretch
		if s, err = w.methylation.Add(rec); s != nil {
			return w.print(s.Text(), s.JSON)
		}
	}
	if err != nil {
		logger.Warn("ignoring a record", "err", err)
	}
	return nil
}

// name prints what samples have of genes now that a record has come.
func (w *viewer) name(named []*pipeline.Naming, err error, logger *slog.Logger) error {
	if err != nil {
		logger.Warn("ignoring a record", "err", err)
	}
	for _, n := range named {
		if err := w.print(n.Text(), n.JSON); err != nil {
			return err
		}
	}
	return nil
}

// withhold keeps what a record brings out of a file and out of diplotypes, and what it supersedes with it; of what is printed event by event nothing is kept. One that
// can't be read is logged, whatever the filter says of it.
func (w *viewer) withhold(rec stream.Record, file bool, logger *slog.Logger) error {
	if w.diplotypes != nil {
		named, err := w.diplotypes.Withhold(rec)
		return w.name(named, err, logger)
	}
	var err error
	if file {
		err = errors.Join(w.variants.Withhold(rec), w.methylation.Withhold(rec))
	} else {
		err = readable(rec)
	}
	if err != nil {
		logger.Warn("ignoring a record", "err", err)
	}
	return nil
}

// readable says why an event can't be read.
func readable(rec stream.Record) error {
	_, _, err := event.Decode(rec)
	if err == nil {
		_, err = event.DecodeReference(rec)
	}
	if err == nil {
		_, _, err = alert.Decode(rec)
	}
	if err == nil {
		_, _, err = methylation.Decode(rec)
	}
	return err
}

func (w *viewer) print(text string, document func() ([]byte, error)) error {
	switch w.format {
	case "text":
		return printed(w.out, text)
	case "json":
		b, err := document()
		if err != nil {
			return err
		}
		return printed(w.out, string(b))
	}
	return nil
}

// printed writes one line and flushes it: a user who follows a topic
// through a pipe wants it at once.
func printed(out *bufio.Writer, line string) error {
	_, _ = out.WriteString(line) // a bufio.Writer's error stays until Flush
	_ = out.WriteByte('\n')
	return out.Flush()
}

// The formats of counts of modified bases.
const (
	bedMethyl  = "bedmethyl"
	motifList  = "motifs"
	regionList = "regions"
	stateList  = "vector"
)

var (
	ofMethylation = []string{bedMethyl, motifList, regionList, stateList}
	ofHaplotypes  = []string{bedMethyl, regionList, stateList}
)

// writePanel writes the answers to rules on regions, or the states of sites, by the counts of a sample so far.
func writePanel(out io.Writer, cfg *consumeConfig, fold *pipeline.MethylationFold, sample string, g *genome.Genome) error {
	counts := cfg.panel.counts()
	err := fold.Rows(sample, cfg.haplotype, g.Rank, func(contig string, row *pileup.Row) error {
		if c := g.Contig(contig); c != nil && panel.IsCpG(c.Seq, row.Pos, row.Strand) {
			counts.add(contig, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	table := counts.states()
	if cfg.format == regionList {
		table = counts.answers()
	}
	_, err = out.Write(table)
	return err
}

// consumedFiles are the formats that show the state of a sample as a file.
var consumedFiles = map[string]func(out io.Writer, g *genome.Genome, sample, anyAllele string, version vcf.Version, fold *pipeline.Fold) error{
	"vcf": func(out io.Writer, g *genome.Genome, sample, _ string, version vcf.Version, fold *pipeline.Fold) error {
		return pipeline.WriteVCF(out, g, sample, variant.Config{}, version, fold.Variants(sample, g.Rank))
	},
	"gvcf": func(out io.Writer, g *genome.Genome, sample, anyAllele string, version vcf.Version, fold *pipeline.Fold) error {
		return pipeline.WriteGVCF(out, variant.Config{}, version, anyAllele, fold.ReferenceRecords(sample, g), fold.Variants(sample, g.Rank))
	},
	bedMethyl:      nil,
	motifList:      nil,
	regionList:     nil,
	stateList:      nil,
	diplotypeTable: nil,
	"callable": func(out io.Writer, g *genome.Genome, sample, _ string, _ vcf.Version, fold *pipeline.Fold) error {
		return pipeline.WriteCallable(out, fold.ReferenceRecords(sample, g))
	},
}

// compileFilter returns a predicate over the JSON document of an event.
// Records of other kinds pass: they carry the run's end.
func compileFilter(expression string) (func(stream.Record) (bool, error), error) {
	if expression == "" {
		return func(stream.Record) (bool, error) { return true, nil }, nil
	}
	program, err := expr.Compile(expression, expr.AsBool(), expr.AllowUndefinedVariables())
	if err != nil {
		return nil, cli.Usagef("--filter: %w", err)
	}
	if err := checkMembers(program.Node()); err != nil {
		return nil, err
	}
	return func(rec stream.Record) (bool, error) {
		if stream.IsMarkerKey(rec.Key) {
			return true, nil
		}
		var doc map[string]any
		if json.Unmarshal(rec.Value, &doc) != nil {
			return true, nil //nolint:nilerr // not ours to check; decoding will say what is wrong
		}
		result, err := vm.Run(program, doc)
		if err != nil && !isAsked(rec) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("evaluating --filter on record %d of %s/%d: %s; a member that an event may lack takes ?. behind it, and ?? with what to take instead, as in (call.motif?.sites ?? 0) > 3",
				rec.Offset, rec.Topic, rec.Partition, strings.Join(strings.Fields(err.Error()), " "))
		}
		keep, ok := result.(bool)
		if !ok {
			return false, errors.New("evaluating --filter: the result is neither true nor false")
		}
		return keep, nil
	}, nil
}

// isAsked reports whether a filter has to have an answer for an event. It asks for what variants, alerts or counts have: of places where nothing
// was called it needn't say anything, and what can't be read is reported by decoding.
func isAsked(rec stream.Record) bool {
	switch event.TypeOf(rec) {
	case event.TypeVariant:
		v, _, err := event.Decode(rec)
		return err == nil && v != nil
	case alert.Type, methylation.Type, methylation.TypeHaplotype:
		return true
	}
	return false
}

// diplotypeTable is the format of a table of diplotypes.
const diplotypeTable = "table"

// checkDiplotypes checks the flags of --diplotypes against the others.
func (cfg *consumeConfig) checkDiplotypes() error {
	switch {
	case !cfg.diplotypes && cfg.format == diplotypeTable:
		return cli.Usagef("--format table is of diplotypes: it goes with --diplotypes")
	case !cfg.diplotypes && len(cfg.definitions) > 0:
		return cli.Usagef("--definitions goes with --diplotypes")
	case !cfg.diplotypes:
		return nil
	case cfg.alerts || cfg.basecalls || cfg.methylation:
		return cli.Usagef("--diplotypes goes with neither --alerts nor --basecalls nor --methylation")
	case len(cfg.definitions) == 0:
		return cli.Usagef("--diplotypes needs --definitions: PharmCAT's definitions of a gene, such as CYP2C19_translation.json")
	case cfg.reference == "":
		return cli.Usagef("--diplotypes needs --ref, the reference genome")
	case cfg.format != "text" && cfg.format != "json" && cfg.format != diplotypeTable:
		return cli.Usagef("--diplotypes is text, json or table, not %s", cfg.format)
	}
	return nil
}

// namer names alleles by the definitions; nil without --diplotypes.
func (cfg *consumeConfig) namer() (*pipeline.Namer, error) {
	if !cfg.diplotypes {
		return nil, nil //nolint:nilnil // see above
	}
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return nil, err
	}
	genes, err := processor.LoadDefinitions(cfg.definitions, g)
	if err != nil {
		return nil, err
	}
	return pipeline.NewNamer(g, genes), nil
}
