package output

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/align/hts/samtag"
)

// summaryColumns are the columns of a summary, named as Dorado and MinKNOW name
// them in a sequencing summary (ont-output-specifications, sequencing_summary).
var summaryColumns = []string{
	"filename", "read_id", "run_id", "channel", "mux", "start_time", "duration", "template_start", "template_duration",
	"sequence_length_template", "mean_qscore_template", "barcode", "end_reason", "pore_type",
	"alignment_genome", "alignment_genome_start", "alignment_genome_end", "alignment_strand_start", "alignment_strand_end",
	"alignment_direction", "alignment_length", "alignment_num_aligned", "alignment_num_correct", "alignment_num_insertions",
	"alignment_num_deletions", "alignment_num_substitutions", "alignment_mapq", "alignment_strand_coverage",
	"alignment_identity", "alignment_accuracy", "parent_read_id", "start_time_utc",
}

// Summarise writes a table of the reads of a SAM or BAM file, ours or another basecaller's: a line
// for each read, in the file's order, with what its tags and its primary alignment state. What isn't
// known is "-", times are in seconds, places count from 0 and ends are not included, as in Dorado's
// summaries. start_time and template_start count from the begin of the run, which the read group
// states (DT); start_time_utc is the instant that the record has. A read that is a part of another
// has that as its parent, others themselves.
//
// alignment_length counts columns, identity is correct over aligned bases and
// accuracy correct bases over columns. Where a CIGAR doesn't distinguish
// matches from mismatches the tag NM does.
func Summarise(w io.Writer, in io.Reader) error {
	records, err := hts.NewReader(in, 1)
	if err != nil {
		return fmt.Errorf("reading the header: %w: this is neither SAM nor BAM", err)
	}
	runs := make(map[string]runOf)
	for _, line := range records.Lines() {
		if id, ok := hts.Field(line, "ID"); ok && hts.Is(line, "@RG") {
			runs[id] = runOfGroup(line)
		}
	}
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, strings.Join(summaryColumns, "\t"))
	for n := 1; ; n++ {
		r, err := records.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading record %d: %w", n, err)
		}
		if r.Flags&(sam.Secondary|sam.Supplementary) != 0 {
			continue
		}
		// A bufio.Writer keeps its first error, which Flush returns.
		columns, more := provenance(r, runs)
		fmt.Fprintln(out, strings.Join(append(append(columns, alignmentOf(r)...), more...), "\t"))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

// runOf is what a read group states about its run.
type runOf struct {
	id    string    // empty: not known
	start time.Time // zero: not known
}

// runOfGroup reads a line @RG.
func runOfGroup(line string) (run runOf) {
	description, _ := hts.Field(line, "DS")
	for field := range strings.FieldsSeq(description) {
		if id, ok := strings.CutPrefix(field, "runid="); ok {
			run.id = id
		}
	}
	if text, ok := hts.Field(line, "DT"); ok {
		run.start = instant(text)
	}
	return run
}

// instant reads a time in a form of ISO 8601 with a zone, as tags and headers have it; zero
// for what is none.
func instant(text string) time.Time {
	for _, form := range [...]string{time.RFC3339, "2006-01-02T15:04:05-0700", "2006-01-02T15:04:05-07"} {
		if t, err := time.Parse(form, text); err == nil {
			return t
		}
	}
	return time.Time{}
}

const unknown = "-"

func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return text
}

// provenance returns the columns before the alignment's, and those behind it.
func provenance(r *sam.Record, runs map[string]runOf) (before, behind []string) {
	number := func(tag string) (float64, bool) {
		if f, ok := samtag.Value(r, tag).(float32); ok {
			return float64(f), true
		}
		i, ok := samtag.Int(r, tag)
		return float64(i), ok
	}
	text := func(tag string) string { s, _ := samtag.Text(r, tag); return s }
	count := func(tag string) string {
		if v, ok := number(tag); ok {
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		return unknown
	}
	// A read's samples and seconds give the rate, and so the time of what was trimmed.
	duration, start, templateStart, template := unknown, unknown, unknown, unknown
	run := runs[text("RG")]
	began := 0.0
	if at := instant(text("st")); !at.IsZero() && !run.start.IsZero() {
		began = max(0, at.Sub(run.start).Seconds())
		start = decimal(began, 6)
	}
	if seconds, ok := number("du"); ok {
		duration = decimal(seconds, 6)
		samples, _ := number("ns")
		trimmed, _ := number("ts")
		if samples > 0 {
			template = decimal(seconds*(samples-trimmed)/samples, 6)
			if start != unknown {
				templateStart = decimal(began+seconds*trimmed/samples, 6)
			}
		}
	}
	parent := r.Name
	if of := text("pi"); of != "" {
		parent = of
	}
	quality := unknown
	if q, ok := number("qs"); ok {
		quality = decimal(q, 6)
	}
	return []string{
		orUnknown(text("fn")), r.Name, orUnknown(run.id), count("ch"), count("mx"), start, duration, templateStart, template,
		strconv.Itoa(r.Seq.Length), quality, orUnknown(text("BC")), orUnknown(text("er")), orUnknown(text("po")),
	}, []string{parent, orUnknown(text("st"))}
}

// alignmentOf returns the columns of a record's alignment.
func alignmentOf(r *sam.Record) []string {
	columns := make([]string, 0, 16)
	if r.Flags&sam.Unmapped != 0 || r.Ref == nil {
		for range cap(columns) {
			columns = append(columns, unknown)
		}
		return columns
	}
	var equal, different, either, inserted, deleted, left, right int
	for i, op := range r.Cigar {
		switch op.Type() {
		case sam.CigarEqual:
			equal += op.Len()
		case sam.CigarMismatch:
			different += op.Len()
		case sam.CigarMatch:
			either += op.Len()
		case sam.CigarInsertion:
			inserted += op.Len()
		case sam.CigarDeletion:
			deleted += op.Len()
		case sam.CigarSoftClipped, sam.CigarHardClipped:
			if i < len(r.Cigar)/2 {
				left += op.Len()
			} else {
				right += op.Len()
			}
		}
	}
	direction, start := "+", left
	if r.Flags&sam.Reverse != 0 {
		direction, start = "-", right
	}
	aligned := equal + different + either
	span, _ := r.Cigar.Lengths()
	correct, substitutions, identity, accuracy := unknown, unknown, unknown, unknown
	nm, known := samtag.Int(r, "NM")
	if known = known || either == 0; known && aligned > 0 {
		if either > 0 {
			different = max(0, min(aligned, nm-inserted-deleted))
		}
		same := aligned - different
		correct, substitutions = strconv.Itoa(same), strconv.Itoa(different)
		identity = decimal(float64(same)/float64(aligned), 6)
		accuracy = decimal(float64(same)/float64(aligned+inserted+deleted), 6)
	}
	length := left + right + aligned + inserted
	coverage := unknown
	if length > 0 {
		coverage = decimal(float64(aligned+inserted)/float64(length), 6)
	}
	return append(columns,
		r.Ref.Name(), strconv.Itoa(r.Pos), strconv.Itoa(r.Pos+span), strconv.Itoa(start), strconv.Itoa(start+aligned+inserted),
		direction, strconv.Itoa(aligned+inserted+deleted), strconv.Itoa(aligned), correct, strconv.Itoa(inserted),
		strconv.Itoa(deleted), substitutions, strconv.Itoa(int(r.MapQ)), coverage, identity, accuracy)
}

func decimal(f float64, digits int) string { return strconv.FormatFloat(f, 'f', digits, 64) }
