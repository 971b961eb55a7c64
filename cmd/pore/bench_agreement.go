package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/bench"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/internal/cli"
)

// agreementBounds are what calls have to agree in.
type agreementBounds struct {
	identical float64 // share of reads in single precision
	identity  float64 // in half precision
	int8      float64 // identity in whole numbers
	scores    float64 // identity with scores in eight bits
}

func benchAgreementCommand() *cobra.Command {
	var f benchFlags
	var bounds agreementBounds
	cmd := &cobra.Command{
		Use:   "agreement SIGNAL...",
		Short: "Whether a device calls what the CPU calls in single precision",
		Long: `Calls reads of POD5 and BLOW5 files on the CPU in single precision, and then on the
device in single and in half precision, and in single precision with scores in eight
bits, and compares the sequences: how many are identical, and in how many columns of their
alignments they differ. It fails if in single precision fewer reads than
--least-identical have the same sequence, or if in half precision the
identity is below --least-identity, or with scores in eight bits below --least-identity-scores. On the CPU these are
compared, and int8, whose identity must not be below --least-identity-int8. A model without
a file for half precision has none to compare, one without LSTM layers no int8.`,
		Example: `  pore bench agreement --device cuda:0 reads.pod5`,
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			for name, share := range map[string]float64{"least-identical": bounds.identical, "least-identity": bounds.identity, "least-identity-int8": bounds.int8, "least-identity-scores": bounds.scores} {
				if !(share >= 0 && share <= 1) {
					return cli.Usagef("--%s %v is not from 0 to 1", name, share)
				}
			}
			if f.engines.Compute.Precision != infer.PrecisionAuto || f.engines.Compute.Scores != infer.ScoresAuto {
				return cli.Usagef("--precision and --scores are not to be chosen: all are compared")
			}
			model, reads, logger, err := f.open(cmd.Context(), args)
			if err != nil {
				return err
			}
			return benchAgreement(cmd.Context(), model, reads, f.config(logger), bounds, cmd.OutOrStdout(), f.json)
		},
	}
	f.register(cmd.Flags(), 10_000_000)
	cmd.Flags().Float64Var(&bounds.identical, "least-identical", 1, "share of the reads that has to be called the same in single precision")
	cmd.Flags().Float64Var(&bounds.identity, "least-identity", 0.999, "identity over all columns that half precision has to have")
	cmd.Flags().Float64Var(&bounds.scores, "least-identity-scores", 0.997, "identity over all columns that scores in eight bits have to have")
	cmd.Flags().Float64Var(&bounds.int8, "least-identity-int8", 0.98, "identity over all columns that int8 has to have on the CPU")
	return cmd
}

// agreementReport is what pore bench agreement prints.
type agreementReport struct {
	Model   string            `json:"model"`
	Devices []bench.Agreement `json:"devices"`
}

func benchAgreement(ctx context.Context, model *basecall.Model, reads []basecall.Read, cfg basecall.Config, bounds agreementBounds, w io.Writer, asJSON bool) error {
	all, err := bench.CompareCalls(ctx, model, cfg, reads)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("model %s has no file for half precision, no LSTM layers for int8 and no bound of its scores, and the device is the CPU: there is nothing to compare", model.Manifest.Name)
	}
	r := agreementReport{Model: model.Manifest.Name, Devices: all}
	if asJSON {
		err = printJSON(w, r)
	} else {
		err = r.print(w)
	}
	if err != nil {
		return err
	}
	for _, a := range all {
		if err := bounds.check(a); err != nil {
			return err
		}
	}
	return nil
}

func (r agreementReport) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, compared with the CPU in fp32:\n\n", r.Model)
	fmt.Fprintln(w, "| device | precision | scores | reads | identical | edits | columns | identity |")
	fmt.Fprintln(w, "|:-------|:----------|:-------|------:|----------:|------:|--------:|---------:|")
	for _, a := range r.Devices {
		if _, err := fmt.Fprintf(w, "| %-6s | %-9s | %-6s | %5d | %9d | %5d | %7d | %.4f %% |\n", a.Device, a.Precision, a.Scores, a.Reads, a.Identical, a.Edits, a.Columns, 100*a.Identity); err != nil {
			return err
		}
	}
	return nil
}

// check fails if calls agree less than they have to.
func (b agreementBounds) check(a bench.Agreement) error {
	in := a.Precision
	if a.Scores == infer.ScoresBytes.String() {
		in += " with scores in int8"
	}
	what := fmt.Sprintf("%s in %s calls otherwise than the CPU in fp32", a.Device, in)
	if identical := float64(a.Identical) / float64(a.Reads); a.Precision == infer.PrecisionSingle.String() && a.Scores == infer.ScoresFloat.String() {
		if identical < b.identical {
			return fmt.Errorf("%s: %d of %d reads are identical, %.4f %% and not %.4f %% (%d edits in %d columns), for example not %s",
				what, a.Identical, a.Reads, 100*identical, 100*b.identical, a.Edits, a.Columns, a.Different[0])
		}
		return nil
	}
	least := b.identity
	switch {
	case a.Precision == infer.PrecisionInt8.String():
		least = b.int8
	case a.Scores == infer.ScoresBytes.String():
		least = b.scores
	}
	if a.Identity < least {
		return fmt.Errorf("%s: identity is %.4f %% and not %.4f %% (%d edits in %d columns)", what, 100*a.Identity, 100*least, a.Edits, a.Columns)
	}
	return nil
}
