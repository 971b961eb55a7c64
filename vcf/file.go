package vcf

import (
	"errors"
	"fmt"
	"github.com/porestream/porestream/wholefile"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
)

// bgzipLevel is bgzip's own.
const bgzipLevel = 6

// File is a VCF file that appears under its name when it is whole: until Commit it is written beside, so that nobody
// reads half of it, and what had the name before stays. It is not safe for concurrent use.
type File struct {
	path   string
	whole  *wholefile.File
	writer *Writer
	bgzip  *bgzipWriter // nil: plain text
	index  *indexer
}

// Create begins a VCF file. With a name that ends in .gz it is compressed by BGZF, and Commit adds an index: path.tbi,
// or path.csi if a contig is longer than the 512 Mb that the former can hold. The records must then be sorted. The
// caller calls Commit or Discard.
func Create(path string, header *Header) (*File, error) {
	whole, err := wholefile.Create(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, whole: whole}
	var out io.Writer = whole
	if strings.HasSuffix(path, ".gz") {
		z, err := NewBgzip(bgzipLevel)
		if err != nil {
			return nil, errors.Join(err, f.Discard())
		}
		f.bgzip = &bgzipWriter{w: whole, z: z}
		longest := 0
		for _, c := range header.Contigs() {
			longest = max(longest, c.Length)
		}
		f.index = newIndexer(longest)
		out = f.bgzip
	}
	if f.writer, err = NewWriter(out, header); err != nil {
		return nil, errors.Join(fmt.Errorf("writing %s: %w", path, err), f.Discard())
	}
	return f, nil
}

// Write appends a record.
func (f *File) Write(r *Record) error {
	if f.index == nil {
		return f.writer.Write(r)
	}
	if err := f.writer.check(r); err != nil {
		return fmt.Errorf("writing VCF record %s:%d: %w", r.Chrom, r.Pos, err)
	}
	if err := f.writer.Flush(); err != nil { // the header, before the first record
		return err
	}
	from := f.bgzip.offset()
	f.writer.buf = r.AppendLine(f.writer.buf[:0])
	if _, err := f.bgzip.Write(f.writer.buf); err != nil {
		return fmt.Errorf("writing VCF: %w", f.whole.Cause(err))
	}
	start := max(0, r.Pos-1)
	f.index.add(r.Chrom, start, max(start+1, r.end()), from, f.bgzip.offset())
	return nil
}

// end is the 1-based position of the record's last base: END, or where REF ends.
func (rec *Record) end() int {
	if v, ok := rec.Info.Get("END"); ok {
		if n, err := strconv.Atoi(v); err == nil && n >= rec.Pos && n <= math.MaxInt32 {
			return n
		}
	}
	return rec.Pos + len(rec.Ref) - 1
}

// Commit finishes the file and its index and gives them their names.
func (f *File) Commit() error {
	err := f.writer.Flush()
	if err == nil && f.bgzip != nil {
		err = f.bgzip.finish()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", f.path, f.whole.Cause(err)), f.Discard())
	}
	if f.index != nil {
		// An index of what had the name before would be wrong from the rename on.
		for _, suffix := range []string{".tbi", ".csi"} {
			if err := os.Remove(f.path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				return errors.Join(fmt.Errorf("removing the old index: %w", err), f.Discard())
			}
		}
	}
	if err := f.whole.Commit(); err != nil {
		return err
	}
	if f.index == nil {
		return nil
	}
	return f.writeIndex()
}

// writeIndex writes the index beside the file.
func (f *File) writeIndex() error {
	path := f.path + ".tbi"
	if f.index.csi {
		path = f.path + ".csi"
	}
	z, err := NewBgzip(bgzipLevel)
	if err != nil {
		return err
	}
	packed, err := z.Append(nil, f.index.append(nil))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, AppendBgzipEnd(packed), 0o644); err != nil { //nolint:gosec // as readable as the file
		return fmt.Errorf("writing the index: %w", err)
	}
	return nil
}

// Discard gives up what was written. After Commit it does nothing.
func (f *File) Discard() error { return f.whole.Discard() }

// bgzipWriter compresses a stream of text in full blocks and knows its place.
type bgzipWriter struct {
	w       io.Writer
	z       *Bgzip
	text    []byte
	packed  []byte
	written uint64 // compressed bytes before text
}

// offset is the virtual offset of the next byte.
func (b *bgzipWriter) offset() uint64 { return b.written<<16 | uint64(len(b.text)) }

// Write compresses p as far as it fills blocks.
func (b *bgzipWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		take := min(len(p), bgzfBlock-len(b.text))
		b.text = append(b.text, p[:take]...)
		p = p[take:]
		if len(b.text) == bgzfBlock {
			if err := b.flush(); err != nil {
				return n - len(p), err
			}
		}
	}
	return n, nil
}

// flush writes what there is as a block.
func (b *bgzipWriter) flush() error {
	var err error
	if b.packed, err = b.z.Append(b.packed[:0], b.text); err != nil {
		return err
	}
	n, err := b.w.Write(b.packed)
	b.written += uint64(n)
	b.text = b.text[:0]
	return err
}

// finish writes the last block and the end of the file.
func (b *bgzipWriter) finish() error {
	if err := b.flush(); err != nil {
		return err
	}
	_, err := b.w.Write(AppendBgzipEnd(nil))
	return err
}
