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
	"strings"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/hgvs"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
)

// hgvsColumns are the columns of pore hgvs.
const hgvsColumns = "input\tnormalised\tg\tp\tvcf\terror\n"

type hgvsConfig struct {
	reference, format, stop string
	genes                   processor.Genes
	header, parentheses     bool
	log                     cli.LogFlags
}

func hgvsCommand() *cobra.Command {
	var cfg hgvsConfig
	cmd := &cobra.Command{
		Use:   "hgvs --ref FASTA --gff GFF3 DESCRIPTION...|-",
		Short: "Check HGVS descriptions and bring them into normal form",
		Long: `Writes one line for each description (g., m., o., c. or n.): the input, its
normal form, the genomic description, the predicted protein, the variant as
contig:pos:ref:alt, and an error, separated by tabs, with . for what there is
not. - reads one description per line from standard input.

A description with an error does not keep the others from being written; the
exit code is then 1.`,
		Example: `  pore hgvs --ref ref.fa --gff genes.gff3 'NM_004333.6:c.1799T>A'
  pore hgvs --ref ref.fa --gff genes.gff3 - < descriptions.txt`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return normalizeHGVS(cmd.Context(), cfg, args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	cfg.genes.Register(flags)
	flags.StringVar(&cfg.format, "format", "tsv", "tsv or json (one object per line)")
	flags.BoolVar(&cfg.header, "header", false, "begin with a line that names the columns of tsv")
	flags.BoolVar(&cfg.parentheses, "parentheses", true, "predicted proteins in parentheses: p.(Arg97Gly)")
	flags.StringVar(&cfg.stop, "stop", "ter", "how a stop is written in proteins: ter (Ter) or asterisk (*)")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func normalizeHGVS(ctx context.Context, cfg hgvsConfig, args []string, stdin io.Reader, stdout io.Writer) error {
	if cfg.reference == "" || len(cfg.genes.Paths) == 0 {
		return cli.Usagef("--ref and --gff are required: the reference genome and its genes")
	}
	write := map[string]func(hgvsLine, io.Writer) error{"tsv": hgvsLine.tsv, "json": hgvsLine.json}[cfg.format]
	if write == nil {
		return cli.Usagef("--format %q: want tsv or json", cfg.format)
	}
	if cfg.stop != "ter" && cfg.stop != "asterisk" {
		return cli.Usagef("--stop %q: want ter or asterisk", cfg.stop)
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	g, err := cfg.genes.PackedGenome(cfg.reference)
	if err != nil {
		return err
	}
	annotator, err := cfg.genes.Annotator(ctx, g, logger)
	if err != nil {
		return err
	}
	style := annotate.ProteinStyle{Predicted: cfg.parentheses, Asterisk: cfg.stop == "asterisk"}
	h := hgvsWriter{normalizer: annotate.NewNormalizer(annotator, style), out: bufio.NewWriter(stdout), write: write}
	if cfg.header && cfg.format == "tsv" {
		h.out.WriteString(hgvsColumns)
	}
	return h.run(ctx, args, stdin)
}

// hgvsWriter writes what becomes of descriptions, and counts them.
type hgvsWriter struct {
	normalizer  *annotate.Normalizer
	out         *bufio.Writer
	write       func(hgvsLine, io.Writer) error
	all, failed int
}

// run takes the arguments, and standard input where one of them is "-".
func (h *hgvsWriter) run(ctx context.Context, args []string, stdin io.Reader) error {
	for _, a := range args {
		var err error
		if a == "-" {
			err = h.lines(ctx, stdin)
		} else {
			err = h.add(strings.TrimSpace(a))
		}
		if err != nil {
			return err
		}
	}
	if err := h.out.Flush(); err != nil {
		return err
	}
	if h.failed > 0 {
		return fmt.Errorf("%d of %d descriptions have an error", h.failed, h.all)
	}
	return nil
}

// lines takes the lines of standard input. Those who type see the answer to a line before they type the next.
func (h *hgvsWriter) lines(ctx context.Context, stdin io.Reader) error {
	in := bufio.NewReaderSize(stdin, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, readErr := readLine(in)
		if line = strings.TrimSpace(line); line != "" {
			if err := h.add(line); err != nil {
				return err
			}
		}
		if in.Buffered() == 0 {
			if err := h.out.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			return nil
		}
		if readErr != nil {
			return fmt.Errorf("standard input: %w", readErr)
		}
	}
}

// readLine reads a line, but of one that is too long for a description only as much as shows that.
func readLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if left := hgvs.MaxLength + 1 - len(line); len(part) > left {
			part = part[:max(0, left)]
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return string(line), err
		}
	}
}

// add normalises one description.
func (h *hgvsWriter) add(description string) error {
	h.all++
	line := hgvsLine{Input: description}
	normal, err := h.normalizer.Normalize(description)
	if err != nil {
		h.failed++
		line.Error = err.Error()
	} else {
		line.Normalised, line.G, line.P = normal.Description, normal.Genomic, normal.Protein
		for _, l := range normal.Loci {
			line.VCF = append(line.VCF, l.String())
		}
	}
	return h.write(line, h.out)
}

// hgvsLine is what becomes of one description.
type hgvsLine struct {
	Input      string   `json:"input"`
	Normalised string   `json:"normalised,omitempty"`
	G          string   `json:"g,omitempty"`
	P          string   `json:"p,omitempty"`
	VCF        []string `json:"vcf,omitempty"`
	Error      string   `json:"error,omitempty"`
}

func (l hgvsLine) tsv(w io.Writer) error {
	columns := []string{l.Input, l.Normalised, l.G, l.P, strings.Join(l.VCF, ";"), l.Error}
	for i, c := range columns {
		if columns[i] = strings.NewReplacer("\t", " ", "\n", " ", "\r", " ").Replace(c); c == "" {
			columns[i] = "."
		}
	}
	_, err := io.WriteString(w, strings.Join(columns, "\t")+"\n")
	return err
}

func (l hgvsLine) json(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(l)
}
