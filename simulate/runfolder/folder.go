package runfolder

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/wholefile"
)

// Format is one in which MinKNOW writes called reads.
type Format string

// The formats.
const (
	FASTQ Format = "fastq" // gzipped
	BAM   Format = "bam"
)

// unclassified is what MinKNOW calls reads without a barcode, where it searches for barcodes.
const unclassified = "unclassified"

// Folder is the folder of a run, as MinKNOW lays it out: a folder for each format, for reads
// that passed and that failed, and in it one for each barcode. It is not safe for concurrent
// use.
type Folder struct {
	dir     string
	run     *Run
	formats []Format
	rotate  time.Duration
	files   map[fileKey]*file
	numbers map[fileKey]int // of the next files
	reads   int
	title   []byte
}

// fileKey is what is written to one file at a time.
type fileKey struct {
	format  Format
	failed  bool
	barcode string // empty: none is searched for
}

func (k fileKey) compare(o fileKey) int {
	if k.failed != o.failed {
		if o.failed {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(k.format, o.format), cmp.Compare(k.barcode, o.barcode))
}

// NewFolder makes the folder of a run, which must not be there or be empty. Files are begun
// anew when they are as old as rotate says; 0: they never are.
func NewFolder(dir string, run *Run, rotate time.Duration, formats ...Format) (*Folder, error) {
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%s: the folder is not empty: name one that isn't there yet", dir)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return &Folder{dir: dir, run: run, formats: formats, rotate: rotate, files: make(map[fileKey]*file), numbers: make(map[fileKey]int)}, nil
}

// Write appends a read to its files. When it returns, all of the read's bytes are there to be
// decompressed. It returns the files, by their paths within the folder.
func (f *Folder) Write(r *Read) ([]string, error) {
	if err := f.rotateAt(r.End); err != nil {
		return nil, err
	}
	f.reads++
	var paths []string
	for _, format := range f.formats {
		key := fileKey{format: format, failed: r.Failed, barcode: r.Barcode}
		if key.barcode == "" && f.run.Barcoded() {
			key.barcode = unclassified
		}
		file := f.files[key]
		if file == nil {
			var err error
			if file, err = f.open(key, r.End); err != nil {
				return nil, err
			}
			f.files[key] = file
		}
		err := file.write(r)
		if err == nil {
			err = file.flush()
		}
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", file.path, err)
		}
		paths = append(paths, file.path)
	}
	return paths, nil
}

// rotateAt completes the files that are old.
func (f *Folder) rotateAt(now time.Duration) error {
	if f.rotate == 0 {
		return nil
	}
	for key, file := range f.files {
		if now-file.opened < f.rotate {
			continue
		}
		delete(f.files, key)
		if err := file.close(); err != nil {
			return fmt.Errorf("writing %s: %w", file.path, err)
		}
	}
	return nil
}

// Close completes the files that are under way. The run goes without a final summary, as one
// whose MinKNOW was stopped.
func (f *Folder) Close() error {
	var keys []fileKey
	for key := range f.files {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, fileKey.compare)
	var errs []error
	for _, key := range keys {
		errs = append(errs, f.files[key].close())
		delete(f.files, key)
	}
	return errors.Join(errs...)
}

// Finish completes all files and writes the final summary, by which readers know that there is no more.
func (f *Folder) Finish() error {
	if err := f.Close(); err != nil {
		return err
	}
	name := fmt.Sprintf("final_summary_%s_%s.txt", f.run.flowCell(), f.run.suffix())
	return wholefile.Write(filepath.Join(f.dir, name), func(out *bufio.Writer) error {
		cfg := &f.run.cfg
		for _, line := range [][2]string{
			{"instrument", "simulator"}, {"position", f.run.position()}, {"flow_cell_id", f.run.flowCell()}, {"sample_id", cfg.SampleID},
			{"protocol_group_id", cfg.Experiment}, {"protocol", "simulated"}, {"protocol_run_id", f.run.protocolID()}, {"acquisition_run_id", f.run.ID()},
			{"started", f.run.at(0)}, {"acquisition_stopped", f.run.at(cfg.Duration)}, {"processing_stopped", f.run.at(cfg.Duration)},
			{"basecalling_enabled", "1"},
		} {
			if _, err := fmt.Fprintf(out, "%s=%s\n", line[0], line[1]); err != nil {
				return err
			}
		}
		return nil
	})
}

// file is one that grows.
type file struct {
	path   string // within the folder
	opened time.Duration
	write  func(*Read) error
	flush  func() error
	close  func() error
}

// open begins the next file of a kind.
func (f *Folder) open(key fileKey, now time.Duration) (*file, error) {
	quality, end := "pass", ".fastq.gz"
	if key.failed {
		quality = "fail"
	}
	if key.format == BAM {
		end = ".bam"
	}
	parts := []string{f.run.flowCell(), quality, key.barcode, f.run.suffix(), fmt.Sprint(f.numbers[key])}
	f.numbers[key]++
	name := strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "_") + end
	out := &file{path: filepath.Join(string(key.format)+"_"+quality, key.barcode, name), opened: now}
	path := filepath.Join(f.dir, out.path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	disk, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if key.format == BAM {
		err = f.bam(out, disk, key)
	} else {
		f.fastq(out, disk)
	}
	if err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	complete := out.close
	out.close = func() error { return errors.Join(complete(), disk.Close()) }
	return out, nil
}

// fastq has a file written as FASTQ, compressed in one stream.
func (f *Folder) fastq(out *file, disk *os.File) {
	z := gzip.NewWriter(disk)
	out.flush, out.close = z.Flush, z.Close
	out.write = func(r *Read) error {
		f.title = f.appendFASTQ(f.title[:0], r)
		_, err := z.Write(f.title)
		return err
	}
}

// appendFASTQ appends a record with a title as MinKNOW writes it.
func (f *Folder) appendFASTQ(b []byte, r *Read) []byte {
	run := f.run
	b = fmt.Appendf(b, "@%s runid=%s ch=%d start_time=%s flow_cell_id=%s protocol_group_id=%s sample_id=%s",
		r.ID, run.ID(), r.Channel, run.at(r.Start), run.flowCell(), run.cfg.Experiment, run.cfg.SampleID)
	if run.Barcoded() {
		name := cmp.Or(r.Barcode, unclassified)
		b = fmt.Appendf(b, " barcode=%s barcode_alias=%s", name, name)
	}
	b = fmt.Appendf(b, " parent_read_id=%s basecall_model_version_id=%s\n", r.ID, run.cfg.Model)
	b = append(append(b, r.Sequence...), "\n+\n"...)
	for _, q := range r.Qualities {
		b = append(b, q+'!')
	}
	return append(b, '\n')
}

// sampleRate is how often R10.4.1 is measured in a second; each read states how many samples it has.
const sampleRate = 5000

// bam has a file written as BAM without alignments.
func (f *Folder) bam(out *file, disk *os.File, key fileKey) error {
	run := f.run
	group := run.ID() + "_" + run.cfg.Model
	line := "\tDT:" + run.at(0) + "\tDS:runid=" + run.ID() + " basecall_model=" + run.cfg.Model +
		"\tLB:" + run.cfg.SampleID + "\tPL:ONT\tPM:" + run.position() + "\tPU:" + run.flowCell() + "\tal:" + cmp.Or(key.barcode, unclassified)
	if key.barcode != "" && key.barcode != unclassified {
		group += "_" + run.cfg.Kit + "_" + key.barcode
		line += "\tSM:" + key.barcode
	} else {
		line += "\tSM:" + run.cfg.SampleID
	}
	lines := hts.Lines{"@HD\tVN:1.6\tSO:unknown", "@PG\tID:basecaller\tPN:porestream simulate\tDS:simulated", "@RG\tID:" + group + line}
	w, err := hts.NewWriter(disk, hts.BAM, lines, nil, 1)
	if err != nil {
		return err
	}
	out.flush, out.close = w.Flush, w.Close
	out.write = func(r *Read) error {
		rec, err := record(run, r, group, key.barcode)
		if err != nil {
			return err
		}
		return w.Write(rec)
	}
	return nil
}

// record is a read with the tags that MinKNOW gives it.
func record(run *Run, r *Read, group, barcode string) (*sam.Record, error) {
	rec, err := sam.NewRecord(r.ID, nil, nil, -1, -1, 0, 0, nil, r.Sequence, r.Qualities, nil)
	if err != nil {
		return nil, err
	}
	rec.Flags = sam.Unmapped
	if r.Failed {
		rec.Flags |= sam.QCFail
	}
	seconds := (r.End - r.Start).Seconds()
	tags := []struct {
		name  string
		value any
	}{
		{"qs", float32(r.meanQuality())}, {"du", float32(seconds)}, {"ns", int32(min(seconds*sampleRate, 1<<30))}, {"ts", int32(0)},
		{"ch", int32(r.Channel)}, {"rn", int32(r.Number)}, {"st", run.at(r.Start)}, {"pi", r.ID}, {"RG", group},
	}
	for _, t := range tags {
		aux, err := sam.NewAux(sam.NewTag(t.name), t.value)
		if err != nil {
			return nil, fmt.Errorf("tag %s: %w", t.name, err)
		}
		rec.AuxFields = append(rec.AuxFields, aux)
	}
	if barcode != "" {
		aux, err := sam.NewAux(sam.NewTag("BC"), barcode)
		if err != nil {
			return nil, fmt.Errorf("tag BC: %w", err)
		}
		rec.AuxFields = append(rec.AuxFields, aux)
	}
	return rec, nil
}
