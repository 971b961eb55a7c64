package genome

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/porestream/porestream/textfile"
)

const (
	// maxContig is the longest sequence that positions in VCF and BAM, signed 32-bit, can address.
	maxContig = math.MaxInt32
	// maxReserved bounds the memory that is reserved for a file by its size: it is more than the largest genomes of interest
	// need, and a larger file may be something else.
	maxReserved = 8 << 30
	// worthPacking is the size of a file, compressed or not, from which on packing saves what counts beside the rest of a
	// process. Bacteria are smaller.
	worthPacking = 16 << 20
	// maxHeader bounds a header line; real ones are a few hundred bytes.
	maxHeader = 64 << 10
)

// letter maps a byte of a sequence line to its upper-case IUPAC nucleotide letter, and all others to 0.
var letter = func() (t [256]byte) {
	for _, c := range []byte("ACGTUNRYSWKMBDHV") {
		t[c], t[c|0x20] = c, c
	}
	return t
}()

// Load reads a FASTA file, plain or compressed with gzip or bgzip (any number of gzip members). Errors name the
// file and the line. An index beside it (.fai) must fit it. A large file that has one and each sequence on one line, as
// samtools faidx -n 0 writes it, is not read but mapped into memory, and must not change while the process runs; other
// large files with an index are read on all cores.
func Load(path string) (*Genome, error) { return load(path, largeGenome, nil) }

// LoadPacked is Load for callers that read few places and don't use [Contig.Seq]: the bases of a large genome take a quarter
// of the memory. A file that would be mapped is mapped.
func LoadPacked(path string) (*Genome, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() < worthPacking {
		return Load(path)
	}
	return load(path, largeGenome, new(arena))
}

// Packed is the genome with all its contigs packed, however small. It has no synonyms.
func (g *Genome) Packed() *Genome {
	p := &Genome{byName: make(map[string]*Contig, len(g.Contigs))}
	memory := new(arena)
	for _, c := range g.Contigs {
		small := &Contig{Name: c.Name, packed: newPacked(memory)}
		for piece := range c.pieces() {
			small.packed.add(piece)
		}
		small.closePacked()
		p.Contigs = append(p.Contigs, small)
		p.byName[c.Name] = small
	}
	return p
}

// load is Load that maps files of at least the given size, and packs bases if there is an arena for them.
func load(path string, large int64, pack *arena) (*Genome, error) {
	g, err := loadFile(path, large, pack)
	if err != nil {
		return nil, err
	}
	g.Path = path
	return g, nil
}

func loadFile(path string, large int64, pack *arena) (*Genome, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading reference: %w", err)
	}
	defer f.Close()
	list, err := loadIndex(path)
	if err != nil {
		return nil, fmt.Errorf("reading reference %s: %w", path, err)
	}
	size := int64(0)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	if g, err := mapped(f, size, list, large); g != nil || err != nil {
		return g, err
	}
	if size >= large && list != nil {
		if g := readIndexed(f, size, list, pack); g != nil {
			return g, nil
		}
	}
	if list != nil {
		size = max(size, basesOf(list))
	}
	if size > maxReserved {
		size = 0
	}
	g, err := read(f, int(size), list != nil, pack)
	if err != nil {
		return nil, fmt.Errorf("reading reference %s: %w", path, err)
	}
	if list != nil {
		if err := g.checkIndex(path, list); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// mapped is the genome in a file that can be used as it lies; nil if it can't.
func mapped(f *os.File, size int64, list []indexed, large int64) (*Genome, error) {
	first := make([]byte, 1)
	if _, err := f.ReadAt(first, 0); err != nil || first[0] != '>' || size < large || !unwrapped(list) {
		return nil, nil //nolint:nilerr // a file that can't be read so is read from its beginning
	}
	data, ok, err := mapFile(f, size)
	if err != nil || !ok {
		return nil, err
	}
	return view(f.Name(), data, list)
}

// Read is Load for a stream.
func Read(r io.Reader) (*Genome, error) { return read(r, 0, false, nil) }

// read is Read; with an arena the contigs are packed. size is the number of bytes to come, or 0 if it is not known: what is known to fit is not copied as
// it grows, which takes most of the time. indexed says that it is the number of bases after decompression.
func read(r io.Reader, size int, indexed bool, pack *arena) (*Genome, error) {
	br, err := textfile.NewReader(r, 256<<10)
	if err != nil {
		return nil, err
	}
	if br.Compressed && !indexed {
		size = 0
	}
	p := parser{pack: pack, g: &Genome{byName: map[string]*Contig{}}, line: 1}
	if pack == nil {
		p.space = reserve(size)
	}
	for {
		chunk, err := br.ReadSlice('\n')
		if len(chunk) > 0 {
			if perr := p.add(chunk); perr != nil {
				return nil, fmt.Errorf("line %d: %w", p.line, perr)
			}
		}
		switch {
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			if err := p.finish(); err != nil {
				return nil, err
			}
			return p.g, nil
		default:
			return nil, fmt.Errorf("line %d: %w", p.line, err)
		}
	}
}

// parser builds a Genome from chunks of lines: a chunk ends with a newline or is an unfinished part of a line.
type parser struct {
	g        *Genome
	contig   *Contig // being read
	line     int     // of the next chunk, from 1
	midLine  bool    // the next chunk continues a line
	inHeader bool    // the current line is a header
	blank    byte    // what the line so far ended with and was left out: a carriage return or a blank; 0 if nothing was
	header   []byte
	space    []byte // for sequences to come
	pack     *arena // for packed ones; nil if they are to be flat
}

// add takes the next chunk.
func (p *parser) add(chunk []byte) error {
	ended := chunk[len(chunk)-1] == '\n'
	body := chunk
	if ended {
		body = chunk[:len(chunk)-1]
	}
	if !p.midLine {
		p.inHeader = len(body) > 0 && body[0] == '>'
		p.header = p.header[:0]
		p.blank = 0
	}
	p.midLine = !ended

	if p.inHeader {
		if len(p.header)+len(body) > maxHeader {
			return fmt.Errorf("header line longer than %d bytes", maxHeader)
		}
		p.header = append(p.header, body...)
		if ended {
			if err := p.open(); err != nil {
				return err
			}
		}
	} else if err := p.pieceOfLine(body); err != nil {
		return err
	}
	if ended {
		p.line++
	}
	return nil
}

// pieceOfLine takes a piece of a sequence line, without the blanks and the carriage return that it ends with; they must
// be those of the line.
func (p *parser) pieceOfLine(body []byte) error {
	kept := bytes.TrimRight(body, " \t\r")
	switch {
	case len(kept) == 0:
	case p.blank == '\r':
		return errors.New("carriage return inside a line")
	case p.blank != 0:
		return errors.New("blank inside a line of a sequence")
	}
	if len(kept) < len(body) && p.blank == 0 {
		p.blank = body[len(kept)]
	}
	return p.residues(kept)
}

// open starts the contig that the header line names.
func (p *parser) open() error {
	if err := p.close(); err != nil {
		return err
	}
	name, _, _ := bytes.Cut(bytes.ReplaceAll(bytes.TrimRight(p.header[1:], "\r"), []byte("\t"), []byte(" ")), []byte(" "))
	if len(name) == 0 {
		return errors.New("header without a name")
	}
	if p.g.byName[string(name)] != nil {
		return fmt.Errorf("contig %q appears twice", name)
	}
	p.contig = &Contig{Name: string(name)}
	if p.pack != nil {
		p.contig.packed = newPacked(p.pack)
	} else {
		p.contig.Seq = p.space[len(p.space):]
	}
	p.g.byName[p.contig.Name] = p.contig
	p.g.Contigs = append(p.g.Contigs, p.contig)
	return nil
}

// residues appends one piece of a sequence line.
func (p *parser) residues(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	if p.contig == nil {
		return errors.New("sequence before the first '>' header: not FASTA")
	}
	if p.contig.Len()+len(body) > maxContig {
		return fmt.Errorf("contig %q is longer than %d", p.contig.Name, maxContig)
	}
	if p.pack != nil {
		if p.contig.packed.add(body) {
			return nil
		}
	} else {
		start := len(p.contig.Seq)
		p.contig.Seq = append(p.contig.Seq, body...)
		if upperInto(p.contig.Seq[start:], body) {
			return nil
		}
	}
	c := body[slices.IndexFunc(body, func(c byte) bool { return letter[c] == 0 })]
	return fmt.Errorf("%q is not a nucleotide letter (contig %q)", c, p.contig.Name)
}

// upperInto writes the letters of a piece of a sequence in upper case to dst, which has the same length. It writes 0 for a
// character that is no nucleotide letter, and then returns false.
func upperInto(dst, piece []byte) bool {
	dst = dst[:len(piece)]
	var wrong byte // its highest bit, for the loop has no time for branches
	i := 0
	for ; i+32 <= len(piece); i += 32 { // most are bases in one case; four words at a time keep the processor busy
		from, to := piece[i:i+32:i+32], dst[i:i+32:i+32]
		a, aok := upperBases(binary.LittleEndian.Uint64(from))
		b, bok := upperBases(binary.LittleEndian.Uint64(from[8:]))
		c, cok := upperBases(binary.LittleEndian.Uint64(from[16:]))
		d, dok := upperBases(binary.LittleEndian.Uint64(from[24:]))
		if !(aok && bok && cok && dok) {
			wrong |= upperLetters(to, from)
			continue
		}
		binary.LittleEndian.PutUint64(to, a)
		binary.LittleEndian.PutUint64(to[8:], b)
		binary.LittleEndian.PutUint64(to[16:], c)
		binary.LittleEndian.PutUint64(to[24:], d)
	}
	for ; i+8 <= len(piece); i += 8 {
		if u, ok := upperBases(binary.LittleEndian.Uint64(piece[i:])); ok {
			binary.LittleEndian.PutUint64(dst[i:], u)
			continue
		}
		wrong |= upperLetters(dst[i:i+8], piece[i:i+8])
	}
	if rest := len(piece) - 8; i > rest && i < len(piece) && rest >= 0 { // the last eight; some of them are done
		if u, ok := upperBases(binary.LittleEndian.Uint64(piece[rest:])); ok {
			binary.LittleEndian.PutUint64(dst[rest:], u)
			return wrong < 0x80
		}
	}
	wrong |= upperLetters(dst[i:], piece[i:])
	return wrong < 0x80
}

// upperLetters is upperInto by a table; the highest bit of what it returns is set if something is no letter.
func upperLetters(dst, piece []byte) (wrong byte) {
	dst = dst[:len(piece)]
	for i, c := range piece {
		u := letter[c]
		wrong |= u - 1
		dst[i] = u
	}
	return wrong
}

// eachByte times a byte has it in all eight.
const eachByte = 0x0101010101010101

// upperBases is eight letters in upper case, if all of them are A, C, G or T, as nearly all are. Bits 1 and 2 of a
// letter distinguish these four. So the letter that belongs to these bits must equal the letter in the file.
func upperBases(w uint64) (uint64, bool) {
	w &^= 0x20 * eachByte
	low, high := w>>1&eachByte, w>>2&eachByte
	made := 'A'*eachByte + low*('C'-'A') + high*('T'-'A') - (low&high)*('C'+'T'-'A'-'G')
	return made, made == w
}

// close completes the contig being read.
func (p *parser) close() error {
	if p.contig == nil {
		return nil
	}
	if p.contig.Len() == 0 {
		return fmt.Errorf("contig %q has no sequence", p.contig.Name)
	}
	c := p.contig
	if c.packed != nil {
		c.closePacked()
	} else if n := len(p.space) + len(c.Seq); n <= cap(p.space) {
		p.space = p.space[:n]
		c.Seq = c.Seq[:len(c.Seq):len(c.Seq)]
	} else {
		p.space = nil
		c.Seq = bytes.Clone(c.Seq) // drop the spare capacity of growing
	}
	p.contig = nil
	return nil
}

// finish ends the file.
func (p *parser) finish() error {
	if p.midLine && p.inHeader {
		if err := p.open(); err != nil {
			return fmt.Errorf("line %d: %w", p.line, err)
		}
	}
	if err := p.close(); err != nil {
		return fmt.Errorf("line %d: %w", p.line, err)
	}
	if len(p.g.Contigs) == 0 {
		return errors.New("no sequences: the file is empty")
	}
	return nil
}
