package output

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/signal"
)

// htsWriter writes SAM or BAM.
type htsWriter struct {
	records *hts.Writer
	format  hts.Format
	header  Header
	build   string // of the model
	text    *sam.Header
	refs    map[string]*sam.Reference
	groups  map[string]bool // read groups that there are
}

func newHTSWriter(w io.Writer, format Format, header Header) (*htsWriter, error) {
	h := &htsWriter{header: header, refs: map[string]*sam.Reference{}, groups: map[string]bool{}, format: hts.SAM}
	if format == BAM {
		h.format = hts.BAM
	}
	build, err := header.Model.Manifest.Build()
	if err != nil {
		return nil, err
	}
	h.build = build
	text, err := h.samHeader()
	if err != nil {
		return nil, fmt.Errorf("making SAM header: %w", err)
	}
	h.text = text
	if h.records, err = hts.NewWriter(w, h.format, h.lines(), text.Refs(), 1); err != nil {
		return nil, fmt.Errorf("writing the header: %w", err)
	}
	return h, nil
}

// lines are the lines of the header. The library writes times to the second; readers that take the
// times of reads from their run's begin need it as it was.
func (h *htsWriter) lines() hts.Lines {
	lines := hts.LinesOf(h.text)
	starts := make(map[string]time.Time)
	_ = h.header.readGroups(func(name string, run *signal.Run, _ *Barcode) error {
		starts[name] = run.StartTime.UTC()
		return nil
	})
	for i, line := range lines {
		id, _ := hts.Field(line, "ID")
		if start := starts[id]; hts.Is(line, "@RG") && start.Nanosecond() != 0 {
			lines[i] = hts.WithField(line, "DT", start.Format("2006-01-02T15:04:05.000-0700"))
		}
	}
	return lines
}

// samHeader returns the header lines, and fills refs and groups.
func (h *htsWriter) samHeader() (*sam.Header, error) {
	out, err := sam.NewHeader(nil, nil)
	if err != nil {
		return nil, err
	}
	out.Version, out.SortOrder = "1.6", sam.Unsorted
	for _, r := range h.header.References {
		if h.refs[r.Name] != nil { // the library would quietly keep one
			return nil, fmt.Errorf("reference %s: occurs twice", r.Name)
		}
		ref, err := sam.NewReference(r.Name, "", "", r.Length, nil, nil)
		if err == nil {
			err = out.AddReference(ref)
		}
		if err != nil {
			return nil, fmt.Errorf("reference %s: %w", r.Name, err)
		}
		h.refs[r.Name] = ref
	}
	err = h.header.readGroups(func(name string, run *signal.Run, barcode *Barcode) error {
		h.groups[name] = true
		group, err := h.group(run, name, barcode)
		if err == nil {
			err = out.AddReadGroup(group)
		}
		if err != nil {
			return fmt.Errorf("read group %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, h.addPrograms(out)
}

// buildKey stands before what decides a model's bases ([basecall.Manifest.Build]) in the description of a read group, and of
// a FASTQ record. Dorado has no such word; who searches for its words passes over this one.
const buildKey = "model_version="

// modifiedKey stands before the models for modified bases in a read group's description, which ends with them.
const modifiedKey = " modbase_models="

// word is a text as one of the words that a read group's description is made of: readers take a space for its end.
func word(text string) string { return strings.ReplaceAll(clean(text), " ", "_") }

// group returns the read group of a run's reads with a barcode.
func (h *htsWriter) group(run *signal.Run, name string, barcode *Barcode) (*sam.ReadGroup, error) {
	description := "basecall_model=" + word(h.header.Model.Manifest.Name) + " runid=" + word(run.ID) + " " + buildKey + word(h.build)
	if len(h.header.ModifiedModels) > 0 {
		description += modifiedKey + clean(strings.Join(h.header.ModifiedModels, ","))
	}
	library := clean(run.SampleID)
	sample := library
	if barcode != nil && barcode.Sample != "" {
		sample = clean(barcode.Sample)
	}
	start := run.StartTime
	if !start.IsZero() {
		start = start.UTC().Truncate(time.Second)
	}
	group, err := sam.NewReadGroup(name, "", description, library, "", "ONT", clean(run.FlowCellID), sample, "", "", start, 0)
	if err != nil {
		return nil, err
	}
	model := run.SequencerPosition
	if model == "" {
		model = run.Device
	}
	if barcode != nil && barcode.Alias != "" {
		if err := group.Set(sam.NewTag("al"), clean(barcode.Alias)); err != nil {
			return nil, err
		}
	}
	return group, group.Set(sam.NewTag("PM"), clean(model))
}

// addPrograms adds the chain of programs.
func (h *htsWriter) addPrograms(out *sam.Header) error {
	p := h.header.Program
	caller := sam.NewProgram("basecaller", clean(p.Name), clean(p.CommandLine), "", clean(p.Version))
	if err := caller.Set(sam.NewTag("DS"), clean("device="+h.header.Device)); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	if err := out.AddProgram(caller); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	if a := h.header.Aligner; a != nil {
		aligner := sam.NewProgram("aligner", clean(a.Name), clean(a.CommandLine), "basecaller", clean(a.Version))
		if err := out.AddProgram(aligner); err != nil {
			return fmt.Errorf("program: %w", err)
		}
	}
	return nil
}

// Write implements Writer.
func (h *htsWriter) Write(r Record) error {
	records, err := h.convert(r)
	for _, record := range records {
		if err == nil {
			err = h.records.Write(record)
		}
	}
	if err != nil {
		return fmt.Errorf("writing read %s: %w", r.Read.ID, err)
	}
	return nil
}

// Close implements Writer.
func (h *htsWriter) Close() error {
	if err := h.records.Close(); err != nil {
		return fmt.Errorf("completing output: %w", err)
	}
	return nil
}
