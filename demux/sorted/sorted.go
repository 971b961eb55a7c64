// Package sorted sorts the reads of a SAM or BAM file into one BAM file per barcode.
package sorted

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/align/hts/samtag"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/modbase/record"
)

// Options say how reads are sorted.
type Options struct {
	// Classifier finds the barcodes; nil to go by the tag BC, which leaves records as
	// they are.
	Classifier *demux.Classifier
	// Sheet says what samples are called; nil for none. It needs no classifier.
	Sheet *demux.Sheet
	// Trimmer finds adapters and primers to cut off; nil for none. TrimBarcodes cuts
	// off barcodes too.
	Trimmer      *demux.Trimmer
	TrimBarcodes bool
	// Program is the name, version and command line of the program for the header.
	Program [3]string
}

// Count is what went into one file.
type Count struct {
	Barcode, Alias string
	Reads, Bases   int64
}

// Counts say where the records of a file went.
type Counts struct {
	Barcodes []Count // by name
	// Silent lists the sheet's names of samples that have no read. Warnings says what
	// else the sheet and the read groups lack, a line each.
	Silent, Warnings []string
	// Reasons counts the reads without a barcode by why they have none.
	Reasons map[demux.Reason]int64
	// Secondary counts the secondary and supplementary records that were left out:
	// what is classified anew is written without alignments.
	Secondary int64
	// Untrue counts the reads whose tags MM and ML were dropped, as they are not of the read.
	Untrue record.Faults
}

// kitBarcode is what a barcode, or a pair of an outer and an inner one, is called in a sheet,
// behind the name of a kit or alone.
var kitBarcode = regexp.MustCompile(`barcode[0-9]{2,4}(?:_[0-9]{2,4})?$`)

// maxFiles bounds the files that are open at a time.
const maxFiles = 1000

var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// File is what the reads of one barcode are written to.
type File interface {
	io.Writer
	// Finish keeps the file if err is nil. Otherwise it removes the file and returns err.
	Finish(err error) error
}

// Sort reads SAM or BAM and writes each read to the file that create returns for the
// name of its barcode. Files come to be with their first read. What is classified is
// written as unaligned reads in the direction of sequencing. Files are kept
// once all are written: after an error in reading or writing, none is.
func Sort(in io.Reader, create func(name string) (File, error), opts Options) (counts Counts, err error) {
	records, err := hts.NewReader(in, 1)
	if err != nil {
		return counts, fmt.Errorf("reading the header: %w: this is neither SAM nor BAM", err)
	}
	s := &sorter{opts: opts, lines: records.Lines(), refs: records.Header().Refs(), create: create, files: make(map[string]*file), groups: make(map[string]string)}
	for _, line := range s.lines {
		if id, ok := hts.Field(line, "ID"); ok && hts.Is(line, "@RG") {
			s.groups[id] = line
		}
	}
	if opts.Sheet != nil {
		if counts.Warnings, err = opts.Sheet.Check(s.runs()); err != nil {
			return counts, fmt.Errorf("the sample sheet: %w", err)
		}
	}
	counts.Reasons = make(map[demux.Reason]int64)
	s.counts = &counts
	for n := 1; err == nil; n++ {
		var record *sam.Record
		if record, err = records.Read(); err == nil {
			err = s.sort(record)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			err = fmt.Errorf("record %d: %w", n, err)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	for _, run := range s.runs() {
		if opts.Sheet == nil {
			break
		}
		for _, alias := range opts.Sheet.Aliases(run.FlowCell, run.Position) {
			if s.files[alias] == nil && !slices.Contains(counts.Silent, alias) {
				counts.Silent = append(counts.Silent, alias)
			}
		}
	}
	names := slices.Sorted(maps.Keys(s.files))
	for _, name := range names {
		counts.Barcodes = append(counts.Barcodes, s.files[name].count)
		if closeErr := s.files[name].bam.Close(); err == nil { // a disk that is full is so for all files, and is reported once
			err = closeErr
		}
	}
	for _, name := range names {
		err = s.files[name].below.Finish(err)
	}
	return counts, err
}

// runs returns the runs that the read groups name, each once; for a file without read groups,
// one run of which nothing is known.
func (s *sorter) runs() []demux.RunKey {
	var list []demux.RunKey
	for _, line := range s.lines {
		if !hts.Is(line, "@RG") {
			continue
		}
		run := demux.RunKey{}
		run.FlowCell, _ = hts.Field(line, "PU")
		run.Position, _ = hts.Field(line, "PM")
		description, _ := hts.Field(line, "DS")
		for field := range strings.FieldsSeq(description) {
			if id, ok := strings.CutPrefix(field, "runid="); ok {
				run.ID = id
			}
		}
		if !slices.Contains(list, run) {
			list = append(list, run)
		}
	}
	if list == nil {
		list = append(list, demux.RunKey{})
	}
	return list
}

type sorter struct {
	opts   Options
	lines  hts.Lines // of the header
	refs   []*sam.Reference
	groups map[string]string // lines @RG by id
	create func(string) (File, error)
	files  map[string]*file
	counts *Counts
	last   struct{ read, barcode string } // of the record before, for records without a tag of their own
}

// file is the file of one barcode.
type file struct {
	below  File
	bam    *hts.Writer
	groups map[string]string // read groups by what they were
	count  Count
}

func (s *sorter) sort(r *sam.Record) error {
	if s.opts.Classifier == nil {
		return s.byTag(r)
	}
	if r.Flags&(sam.Secondary|sam.Supplementary) != 0 {
		s.counts.Secondary++
		return nil
	}
	if err := s.unalign(r); err != nil {
		return err
	}
	sequence := r.Seq.Expand()
	found := s.opts.Classifier.Classify(sequence)
	if found.Barcode < 0 {
		s.counts.Reasons[found.Reason]++
	}
	cut := found
	if !s.opts.TrimBarcodes {
		cut = found.Uncut()
	}
	inside := s.opts.Trimmer.Inside(sequence, cut)
	if err := modified(r, sequence, inside); err != nil {
		s.counts.Untrue.Add(r.Name, err)
	}
	if err := trim(r, sequence, inside); err != nil {
		return fmt.Errorf("read %s: %w", r.Name, err)
	}
	group, _ := samtag.Text(r, "RG")
	name, alias := s.opts.Classifier.Name(found.Barcode), ""
	sample := ""
	if found.Barcode >= 0 {
		sample = s.opts.Classifier.Barcodes()[found.Barcode]
		if alias = s.alias(group, sample); alias != "" {
			name, sample = alias, alias
		}
	}
	f, err := s.file(name, sample, alias)
	if err != nil {
		return err
	}
	if err := setTag(r, "BC", name); err != nil {
		return err
	}
	if err := setTag(r, "bi", demux.Info(&found)); err != nil {
		return err
	}
	if renamed, ok := f.groups[group]; ok {
		if err := setTag(r, "RG", renamed); err != nil {
			return err
		}
	}
	return f.write(r)
}

// byTag sorts a record by what it says of itself.
func (s *sorter) byTag(r *sam.Record) error {
	name, ok := samtag.Text(r, "BC")
	if !ok {
		// Supplementary records follow the primary, which has the tag.
		if name = demux.Unclassified; s.last.read == r.Name {
			name = s.last.barcode
		}
	}
	s.last.read, s.last.barcode = r.Name, name
	of, alias := name, ""
	if barcode := kitBarcode.FindString(name); barcode != "" {
		group, _ := samtag.Text(r, "RG")
		if alias = s.alias(group, barcode); alias != "" {
			name = alias
			if ok {
				if err := setTag(r, "BC", alias); err != nil {
					return err
				}
			}
		}
	}
	if !fileName.MatchString(name) {
		return fmt.Errorf("read %s: the tag BC is %q, which no file can be called", r.Name, name)
	}
	f, err := s.file(name, of, alias)
	if err != nil {
		return err
	}
	return f.write(r)
}

func (f *file) write(r *sam.Record) error {
	if r.Flags&(sam.Secondary|sam.Supplementary) == 0 {
		f.count.Reads++
		f.count.Bases += int64(r.Seq.Length)
	}
	if err := f.bam.Write(r); err != nil {
		return fmt.Errorf("writing read %s: %w", r.Name, err)
	}
	return nil
}

// alias returns what the sheet calls the sample of a barcode in the run of a read group.
func (s *sorter) alias(group, barcode string) string {
	if s.opts.Sheet == nil {
		return ""
	}
	flowCell, position := "", ""
	if line, ok := s.groups[group]; ok {
		flowCell, _ = hts.Field(line, "PU")
		position, _ = hts.Field(line, "PM")
	}
	return s.opts.Sheet.Alias(flowCell, position, barcode)
}

// file returns the file of a barcode, and makes it at first.
func (s *sorter) file(name, sample, alias string) (*file, error) {
	if f := s.files[name]; f != nil {
		return f, nil
	}
	if len(s.files) >= maxFiles {
		return nil, fmt.Errorf("there are more than %d barcodes: name those that the library has in a sample sheet", maxFiles)
	}
	f := &file{groups: make(map[string]string), count: Count{Barcode: name, Alias: alias}}
	lines, refs := s.headerFor(f, name, sample, alias)
	var err error
	if f.below, err = s.create(name); err != nil {
		return nil, err
	}
	if f.bam, err = hts.NewWriter(f.below, hts.BAM, lines, refs, 1); err != nil {
		return nil, f.below.Finish(fmt.Errorf("writing the header of %s: %w", name, err))
	}
	s.files[name] = f
	return f, nil
}

// headerFor returns the header of a barcode's file. What is classified gets read groups
// of its barcode, and no references. What goes by its tag, which is sample, keeps its
// header, but for what a sheet calls the sample.
func (s *sorter) headerFor(f *file, name, sample, alias string) (hts.Lines, []*sam.Reference) {
	if s.opts.Classifier == nil {
		lines := slices.Clone(s.lines)
		for i, line := range lines {
			// Basecallers have a read group for each barcode.
			if id, _ := hts.Field(line, "ID"); alias != "" && hts.Is(line, "@RG") && strings.HasSuffix(id, sample) {
				lines[i] = hts.WithField(hts.WithField(line, "SM", alias), "al", alias)
			}
		}
		return lines.WithProgram(programID, s.opts.Program), s.refs
	}
	lines := hts.Lines{"@HD\tVN:1.6\tSO:unsorted"}
	for _, line := range s.lines {
		switch {
		case hts.Is(line, "@RG"):
			old, _ := hts.Field(line, "ID")
			f.groups[old] = old
			if name != demux.Unclassified {
				f.groups[old] = old + "_" + name
				for _, v := range []struct{ tag, value string }{{"ID", f.groups[old]}, {"SM", sample}, {"al", alias}} {
					if v.value != "" {
						line = hts.WithField(line, v.tag, v.value)
					}
				}
			}
			lines = append(lines, line)
		case hts.Is(line, "@PG"), hts.Is(line, "@CO"):
			lines = append(lines, line)
		}
	}
	return lines.WithProgram(programID, s.opts.Program), nil
}

// programID is the id of this program in headers.
const programID = "demux"
