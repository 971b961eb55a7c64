package output

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/align/hts/samtag"
	"github.com/porestream/porestream/signal"
)

// maxLine bounds a line of FASTQ: the longest reads have a few million bases.
const maxLine = 1 << 28

// Taken says what a writer took over from output that was broken off.
type Taken struct {
	// Reads are the names of the reads that need not be called again.
	Reads map[string]bool
	// Broken is what ended the reading, nil if it was the end of a complete file.
	Broken error
}

// Resume copies the reads of old, which is output of the same format, model and
// references that was broken off, into w. It is called before the first Write. The
// last read is left out, as part of it may be missing, and so is all that follows a
// place that can't be read. Reads that were written in one order before and after
// make the file that would have been written at once, to the byte.
func Resume(w Writer, old io.Reader) (Taken, error) {
	taken := Taken{Reads: make(map[string]bool)}
	var err error
	switch w := w.(type) {
	case *fastqWriter:
		taken.Broken, err = w.resume(old, taken.Reads)
	case *htsWriter:
		taken.Broken, err = w.resume(old, taken.Reads)
	default:
		err = fmt.Errorf("a %T takes nothing over", w)
	}
	return taken, err
}

func (f *fastqWriter) resume(old io.Reader, reads map[string]bool) (broken, err error) {
	// What another program or format began is no output that was broken off: all reads would be called anew without a word.
	text := bufio.NewReader(old)
	if first, err := text.Peek(1); err == nil && first[0] != '@' {
		return nil, errors.New("it doesn't begin as FASTQ does, with @: give it as it was written, not compressed, and the --format that it has")
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	// A last line without its line feed may be half a line.
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			return i + 1, data[:i+1], nil
		}
		if atEOF && len(data) > 0 {
			return 0, nil, io.ErrUnexpectedEOF
		}
		return 0, nil, nil
	})
	groups := make(map[string]bool)
	_ = f.header.readGroups(func(name string, _ *signal.Run, _ *Barcode) error { groups[name] = true; return nil })
	var record bytes.Buffer
	// The parts of a split read are held until the next read shows that they are all.
	var parts bytes.Buffer
	parent := ""
	for n := 1; ; n++ {
		record.Reset()
		var ends [4]int
		for i := range ends {
			if !lines.Scan() {
				if i == 0 && lines.Err() == nil {
					return nil, nil
				}
				return errors.Join(lines.Err(), io.ErrUnexpectedEOF), nil
			}
			record.Write(lines.Bytes())
			ends[i] = record.Len()
		}
		text := record.Bytes()
		name, _, tagged := strings.Cut(strings.TrimSuffix(string(text[1:ends[0]]), "\n"), "\t")
		if text[0] != '@' || text[ends[1]] != '+' || ends[1]-ends[0] != ends[3]-ends[2] {
			broken := fmt.Errorf("record %d is no FASTQ", n)
			if n == 1 {
				return nil, fmt.Errorf("%w: give the --format that it has", broken)
			}
			return broken, nil
		}
		if _, barcoded := tagOf(string(text[:ends[0]]), "BC:Z:"); barcoded != (f.header.Barcodes != nil) {
			return nil, fmt.Errorf("read %s was called with another kit than now", name)
		}
		title := strings.TrimSuffix(string(text[:ends[0]]), "\n")
		if group, _ := tagOf(title, "RG:Z:"); !tagged || !groups[group] {
			return nil, fmt.Errorf("read %s is of another model, run or kit than those that are called now", name)
		}
		description, _ := tagOf(title, "DS:Z:")
		if err := sameBuild(description, f.build); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if _, modified := tagOf(title, "MM:Z:"); modified != (len(f.header.ModifiedModels) > 0) {
			had := map[bool]string{true: "modified bases", false: "no modified bases"}
			return nil, fmt.Errorf("read %s was called with %s (tag MM), now reads are called with %s: %s", name, had[modified], had[!modified], otherModels)
		}
		of, part := tagOf(title, "pi:Z:")
		if parent != "" && of != parent {
			reads[parent] = true
			f.w.Write(parts.Bytes())
			parts.Reset()
		}
		if parent = of; part {
			parts.Write(text)
			continue
		}
		reads[name] = true
		// A bufio.Writer keeps its first error.
		if _, err := f.w.Write(text); err != nil {
			return nil, fmt.Errorf("writing read %s: %w", name, err)
		}
	}
}

// otherModels is what to do where the models for modified bases are not those of before.
const otherModels = "give --modified-bases as it was, or call all reads anew"

// tagOf returns the value of a tag in a title line.
func tagOf(title, tag string) (value string, ok bool) {
	for field := range strings.SplitSeq(title, "\t") {
		if value, ok := strings.CutPrefix(field, tag); ok {
			return value, true
		}
	}
	return "", false
}

// readOf returns the read that a record is of: the read that was split, for a part.
func readOf(r *sam.Record) string {
	if parent, ok := samtag.Value(r, "pi").(string); ok {
		return parent
	}
	return r.Name
}

func (h *htsWriter) resume(old io.Reader, reads map[string]bool) (broken, err error) {
	records, err := hts.NewFormatReader(old, h.format, 1)
	if err == nil && len(records.Lines()) == 0 {
		err = errors.New("there is none")
	}
	if err != nil {
		return nil, fmt.Errorf("reading its header: %w", err)
	}
	if err := h.sameHeader(records.Header()); err != nil {
		return nil, err
	}
	// The records of one read are held until the next read shows that they are all.
	var held []*sam.Record
	flush := func() error {
		for _, r := range held {
			if err := h.records.Write(r); err != nil {
				return fmt.Errorf("writing read %s: %w", r.Name, err)
			}
			reads[readOf(r)] = true
		}
		held = held[:0]
		return nil
	}
	for {
		r, err := records.Read()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err == nil && records.Unended() {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err, nil
		}
		if len(held) > 0 && readOf(held[0]) != readOf(r) {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		held = append(held, r)
	}
}

// sameHeader returns an error unless old has the references and read groups that
// this file has, in their order.
func (h *htsWriter) sameHeader(old *sam.Header) error {
	now := h.text
	if len(old.Refs()) != len(now.Refs()) {
		return fmt.Errorf("it has %d references, the reads are aligned to %d now", len(old.Refs()), len(now.Refs()))
	}
	for i, ref := range now.Refs() {
		if o := old.Refs()[i]; o.Name() != ref.Name() || o.Len() != ref.Len() {
			return fmt.Errorf("its reference %d is %s of %d bases, now it is %s of %d", i+1, o.Name(), o.Len(), ref.Name(), ref.Len())
		}
	}
	if len(old.RGs()) != len(now.RGs()) {
		return fmt.Errorf("it has %d read groups, there are %d now: it is of other runs or another kit", len(old.RGs()), len(now.RGs()))
	}
	groups := make(map[string]*sam.ReadGroup)
	for _, g := range now.RGs() {
		groups[g.Name()] = g
	}
	for _, g := range old.RGs() {
		same := groups[g.Name()]
		if same == nil {
			return fmt.Errorf("its read group %s is of another model, run or kit than those that are called now", g.Name())
		}
		if err := sameBuild(g.Get(sam.NewTag("DS")), h.build); err != nil {
			return fmt.Errorf("read group %s: %w", g.Name(), err)
		}
		if was, is := modifiedModels(g), modifiedModels(same); was != is {
			return fmt.Errorf("its modified bases are called by %s, now they are by %s: %s", cmp.Or(was, "no model"), cmp.Or(is, "no model"), otherModels)
		}
	}
	return nil
}

// sameBuild returns an error unless a description names the version of the model that calls now.
func sameBuild(description, now string) error {
	was := ""
	for word := range strings.FieldsSeq(description) {
		if build, ok := strings.CutPrefix(word, buildKey); ok {
			was = build
			break
		}
	}
	switch was {
	case now:
		return nil
	case "":
		return fmt.Errorf("no %sVERSION says which version of the model called it, now it is %s: call all reads anew", buildKey, now)
	}
	return fmt.Errorf("it was called by version %s of the model, now it is %s, which calls other bases: use the model as it was, or call all reads anew", was, now)
}

// modifiedModels are the models for modified bases that a read group names, as they are written: to the end of its
// description, as names may have blanks.
func modifiedModels(g *sam.ReadGroup) string {
	_, models, _ := strings.Cut(g.Get(sam.NewTag("DS")), modifiedKey)
	return models
}
