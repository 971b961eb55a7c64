package annotate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/textfile"
)

// maxRow bounds one line of a gene model; attributes of real files reach some tens of kilobytes.
const maxRow = 8 << 20

// ModelReader reads gene models and regulatory regions from GFF3 and GTF. Its zero value is what most files need.
type ModelReader struct {
	// Codes are the genetic codes of coding sequences whose rows have no transl_table, as in Ensembl's files.
	Codes GeneticCodes
	// Circular names contigs that are circular, in addition to those that a row of the file declares
	// (Is_circular=true).
	Circular []string
}

// LoadModel is ModelReader{}.Load of one file.
func LoadModel(path string, g *genome.Genome) (*Model, error) { return ModelReader{}.Load(g, path) }

// ReadModel is ModelReader{}.Read.
func ReadModel(r io.Reader, g *genome.Genome) (*Model, error) { return ModelReader{}.Read(r, g) }

// Load reads files that together describe the genes, and perhaps the regulatory regions, of the genome: GFF3 or GTF,
// as Ensembl, GENCODE, NCBI, Prokka and Bakta write them; plain, gzip or bgzip. Errors name the file and the line. What
// does not fit the genome is refused; what else is wrong is counted in Model.Faults.
func (o ModelReader) Load(g *genome.Genome, paths ...string) (*Model, error) {
	p, err := o.parser(g)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := p.load(path); err != nil {
			return nil, fmt.Errorf("reading gene model %s: %w", path, err)
		}
	}
	m, err := p.build()
	if err != nil {
		return nil, fmt.Errorf("reading gene model %s: %w", strings.Join(paths, ", "), err)
	}
	return m, nil
}

// Read is Load for a stream.
func (o ModelReader) Read(r io.Reader, g *genome.Genome) (*Model, error) {
	p, err := o.parser(g)
	if err != nil {
		return nil, err
	}
	if err := p.read(r); err != nil {
		return nil, err
	}
	return p.build()
}

// parser is a parser for o, checked against the genome.
func (o ModelReader) parser(g *genome.Genome) (*parser, error) {
	if err := o.Codes.check(g); err != nil {
		return nil, err
	}
	p := &parser{genome: g, codes: o.Codes, regions: map[string]*region{}, contigs: map[*genome.Contig]*region{}, names: map[string]string{}}
	for _, name := range o.Circular {
		if g.Contig(name) == nil {
			return nil, fmt.Errorf("circular contig %q is not in the reference", name)
		}
		p.region([]byte(name)).circular = true
	}
	return p, nil
}

// region is a contig as the gene model knows it.
type region struct {
	name     string
	contig   *genome.Contig // nil if the genome has none of that name
	length   int
	circular bool
	// transcript says that the sequence is that of a transcript rather than of a genome.
	transcript bool
	rows       int

	features   map[string]*feature // by ID
	regulatory []*regulatory
}

// feature is a row that may have parts or be the parent of other features: a gene or a transcript.
type feature struct {
	attributes
	line   int
	region *region
	kind   string
	start  int // inter-residue, as the row has it: excerpts have genes reach outside the contig
	end    int
	strand byte // '+', '-', or '.' when unknown
	id     string
	parent *feature // nil if there is none
	// children is the number of features that have it as parent.
	children int
	// derived says that the row stands for a part of its parent, such as a mature microRNA: it is no transcript.
	derived bool
	// unnamed says that nothing gives the transcript a name: it stands for its CDS.
	unnamed bool
	// linked says that rows are linked by gene_id and transcript_id, as in GTF, rather than by ID and Parent.
	linked bool
	// locus says of linked rows that they are of a gene.
	locus bool
	// described says that a linked row of the feature itself was read, not only rows of its parts.
	described bool
	// adoptable says that no row so far has said which gene the linked transcript belongs to.
	adoptable bool
	// titled is the transcript's name where that is its contig's.
	titled string
	// known says that the gene has transcripts that are named or coding.
	known bool

	exons, cds, utrs []part
	texts            []attributes // of CDS rows
	starts, stops    []part       // GTF's rows of start and stop codons
	seleno           []part       // codons that read as selenocysteine
	mature           []Span
}

// part is an exon or a stretch of coding or untranslated sequence.
type part struct {
	start, end int32 // inter-residue
	line       int32
	phase      int8 // bases to skip to the next codon; -1 when unknown
	strand     byte
	kind       partKind
	text       int32 // of CDS rows only: which of feature.texts are its attributes; rows of one CDS share them if they are the same
}

// partKind is what a part is.
type partKind uint8

const (
	noPart partKind = iota
	exonPart
	cdsPart
	utrPart
	startPart
	stopPart
	selenoPart
)

// kindOfPart is the kind that column 3 names, or noPart for features that have parts.
func kindOfPart(kind []byte) partKind {
	switch string(kind) {
	case "exon", "pseudogenic_exon", "coding_exon":
		return exonPart
	case "CDS":
		return cdsPart
	case "five_prime_UTR", "three_prime_UTR", "UTR", "five_prime_utr", "three_prime_utr", "5UTR", "3UTR", "5'-UTR", "3'-UTR":
		return utrPart
	case "start_codon":
		return startPart
	case "stop_codon":
		return stopPart
	case "Selenocysteine", "stop_codon_redefined_as_selenocysteine":
		return selenoPart
	}
	return noPart
}

// String is the kind in messages.
func (k partKind) String() string {
	return [...]string{"row", "exon", "CDS", "UTR", "start_codon", "stop_codon", "selenocysteine"}[k]
}

// record is one row, its text valid until the next is read.
type record struct {
	attributes
	line       int
	region     *region
	linked     bool // see feature.linked
	kind       []byte
	parents    []byte // GFF3's Parent as written
	start, end int
	strand     byte
	phase      int8
}

// parser collects the features of files.
type parser struct {
	genome *genome.Genome
	codes  GeneticCodes
	faults faults
	line   int

	regions map[string]*region         // by name
	contigs map[*genome.Contig]*region // those that the genome has
	last    *region
	foreign []string // contigs that the genome does not have, in the order of the file
	known   int      // rows on contigs that it has

	features []*feature
	slab     []feature // not in use yet
	texts    []byte    // space for attributes
	exons    partBuffer
	cds      partBuffer
	parent   struct { // of the part read last: most have the one that the part before them had
		region  *region
		id      []byte
		feature *feature
	}
	pending  []orphan          // parts whose parent was not seen yet
	names    map[string]string // one copy of each kind
	stopRows bool              // GTF with stop_codon rows
	key      []byte            // memory to make names of features in
}

// load reads a file.
func (p *parser) load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.read(f)
}

// read takes the rows of a file.
func (p *parser) read(r io.Reader) error {
	br, err := textfile.NewReader(r, 64<<10)
	if err != nil {
		return err
	}
	sc := bufio.NewScanner(br)
	sc.Buffer(make([]byte, 0, 64<<10), maxRow)
	p.line = 0
	for sc.Scan() {
		p.line++
		if bytes.HasPrefix(sc.Bytes(), []byte("##FASTA")) || bytes.HasPrefix(sc.Bytes(), []byte(">")) {
			break // the sequences are the genome's business
		}
		if err := p.add(sc.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", p.line, err)
		}
	}
	if err := sc.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("longer than %d bytes", maxRow)
		}
		return fmt.Errorf("line %d: %w", p.line+1, err)
	}
	if p.line == 0 {
		return errors.New("the file is empty: neither GFF3 nor GTF")
	}
	return p.resolve()
}

// add takes a line.
func (p *parser) add(line []byte) error {
	for n := len(line); n > 0 && (line[n-1] == '\r' || line[n-1] == ' '); n-- {
		line = line[:n-1]
	}
	if len(line) == 0 || line[0] <= ' ' && len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	if line[0] == '#' {
		if bytes.HasPrefix(line, []byte("##sequence-region")) {
			return p.sequenceRegion(strings.Fields(string(line)))
		}
		return nil
	}
	var f [9][]byte
	rest := line
	for i := range f {
		end := bytes.IndexByte(rest, '\t')
		if end < 0 {
			if i < 8 {
				return fmt.Errorf("%d columns, want 9 separated by tabs: neither GFF3 nor GTF", i+1)
			}
			f[i], rest = rest, nil
			break
		}
		f[i], rest = rest[:end], rest[end+1:]
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		p.faults.note(ExtraColumns, p.line, "%d columns: those behind the ninth are not read", 10+bytes.Count(rest, []byte("\t")))
	}
	r := record{attributes: attributes{text: f[8], gtf: isGTF(f[8])}, line: p.line, region: p.region(f[0]), kind: f[2]}
	kind := kindOfPart(r.kind)
	if !r.gtf {
		r.parents = r.raw("Parent")
	}
	r.linked = r.gtf || r.linksLikeGTF(kind)
	if kind == noPart && !r.linked && string(r.kind) != "gene" {
		r.region.describe(&r)
	}
	if kind == noPart && p.idle(&r) {
		return nil
	}
	r.region.rows++
	if r.region.contig == nil {
		if r.region.rows == 1 {
			p.foreign = append(p.foreign, r.region.name)
		}
		return nil
	}
	p.known++
	if err := r.orient(f[6], f[7]); err != nil {
		return err
	}
	if err := r.place(f[3], f[4], kind != noPart); err != nil {
		return err
	}
	if r.linked {
		p.addGTF(&r, kind)
	} else {
		p.addGFF3(&r, kind)
	}
	return nil
}

// idle reports whether a row that is not a part says nothing about genes or their regulation.
func (p *parser) idle(r *record) bool {
	if isRegulatory(r.kind) {
		return false
	}
	if r.linked {
		return !isGene(string(r.kind)) && (!isTranscript(string(r.kind)) || len(r.raw("transcript_id")) == 0)
	}
	return isLandmark(r.kind) || len(r.raw("ID")) == 0
}

// linksLikeGTF reports whether a row in the syntax of GFF3 names its gene and transcript as GTF does, and has none of
// GFF3's links.
func (r *record) linksLikeGTF(kind partKind) bool {
	if len(r.parents) > 0 || len(r.raw("ID")) > 0 {
		return false
	}
	return len(r.raw("transcript_id")) > 0 || kind == noPart && isGene(string(r.kind)) && len(r.raw("gene_id")) > 0
}

// isGene reports whether rows of a type are genes.
func isGene(kind string) bool { return strings.HasSuffix(kind, "gene") }

// isTranscript reports whether rows of a type are transcripts. Others that name one, such as intron, initial or tss,
// describe a part of it that the exons and the CDS also describe.
func isTranscript(kind string) bool {
	return strings.HasSuffix(kind, "RNA") || strings.HasSuffix(kind, "transcript") || strings.HasSuffix(kind, "gene_segment") || kind == "pseudogene"
}

// describe takes what a row says about the contig as a whole.
func (k *region) describe(r *record) {
	if string(r.raw("Is_circular")) == "true" {
		k.circular = true
	}
	if string(r.kind) == "region" {
		switch string(r.raw("mol_type")) {
		case "mRNA", "transcribed RNA":
			k.transcript = true
		}
	}
}

// transcriptAccession matches accessions of sequences that are transcripts: RefSeq's and Ensembl's.
var transcriptAccession = regexp.MustCompile(`^([NX][MR]_[0-9]+|ENS[A-Z]*T[0-9]{11})(\.[0-9]+)?$`)

// region is the contig of a name as column 1 has it.
func (p *parser) region(name []byte) *region {
	if p.last != nil && p.last.name == string(name) {
		return p.last
	}
	k := p.regions[string(name)]
	if k == nil {
		k = p.newRegion(decode(string(name)))
		p.regions[string(name)] = k
	}
	p.last = k
	return k
}

// newRegion is the contig of a name that column 1 has for the first time: another one's if the genome knows it by both.
func (p *parser) newRegion(name string) *region {
	contig := p.genome.Contig(name)
	if k := p.contigs[contig]; k != nil {
		return k
	}
	k := &region{name: name, contig: contig, features: map[string]*feature{}, transcript: transcriptAccession.MatchString(name)}
	if contig != nil {
		k.length = contig.Len()
		p.contigs[contig] = k
	}
	return k
}

// intern is one copy of a short string that many rows have.
func (p *parser) intern(s []byte) string {
	name, ok := p.names[string(s)]
	if !ok {
		name = string(s)
		p.names[name] = name
	}
	return name
}

// place sets the row's coordinates. Those of a part must lie on the contig. On a circular contig they may go on behind
// its end, or start behind where they end.
func (r *record) place(start, end []byte, strict bool) error {
	s, err := strconv.Atoi(string(start))
	if err != nil || strict && s < 1 {
		return fmt.Errorf("%s: start %q is not a position", r.kind, start)
	}
	length := r.region.length
	e, err := strconv.Atoi(string(end))
	if err == nil && e < s && e > 0 && r.region.circular && s <= length {
		e += length
	}
	if err != nil || e < s {
		return fmt.Errorf("%s: end %q is not a position at or after start %d", r.kind, end, s)
	}
	if strict && e > length && (!r.region.circular || e > 2*length || e-s >= length) {
		return fmt.Errorf("%s ends at %d, but contig %q of the reference has %d bases: they do not belong together", r.kind, e, r.region.name, length)
	}
	r.start, r.end = s-1, e
	return nil
}

// orient sets the row's strand and phase.
func (r *record) orient(strand, phase []byte) error {
	switch string(strand) {
	case "+", "-":
		r.strand = strand[0]
	case ".", "?":
		r.strand = '.'
	default:
		return fmt.Errorf("%s: strand %q, want + - . or ?", r.kind, strand)
	}
	switch string(phase) {
	case "0", "1", "2":
		r.phase = int8(phase[0] - '0')
	case ".":
		r.phase = -1
	default:
		return fmt.Errorf("%s: phase %q is none of 0, 1, 2 and %q", r.kind, phase, ".")
	}
	return nil
}

// part is the row as a part.
func (r *record) part(kind partKind) part {
	return part{start: int32(r.start), end: int32(r.end), line: int32(r.line), phase: r.phase, strand: r.strand, kind: kind}
}

// feature is the row as a feature with an ID.
func (p *parser) feature(r *record, id string) *feature {
	if len(p.slab) == 0 {
		p.slab = make([]feature, 64)
	}
	f := &p.slab[0]
	p.slab = p.slab[1:]
	f.attributes, f.linked, f.line, f.region = attributes{text: p.keep(r.text), gtf: r.gtf}.indexed(), r.linked, r.line, r.region
	f.kind, f.start, f.end, f.strand, f.id = p.intern(r.kind), r.start, r.end, r.strand, id
	return f
}

// partBuffer is space for parts of one kind: those of a feature come one after the other, and lie so in memory.
type partBuffer struct {
	parts []part
	owner *feature // of the last ones
	from  int      // where they begin
}

// add appends x to the parts of f.
func (r *partBuffer) add(f *feature, parts []part, x part) []part {
	if r.owner != f && len(parts) > 0 {
		return append(parts, x) // others came between
	}
	if r.owner != f || len(r.parts) == cap(r.parts) {
		if len(r.parts) == cap(r.parts) {
			r.parts = make([]part, 0, max(1024, 2*len(parts)))
		}
		r.owner, r.from = f, len(r.parts)
		r.parts = append(r.parts, parts...)
	}
	r.parts = append(r.parts, x)
	return r.parts[r.from:len(r.parts):len(r.parts)]
}

// keep is a copy of the attributes of a row.
func (p *parser) keep(text []byte) []byte {
	if len(text) > len(p.texts) {
		p.texts = make([]byte, max(len(text), 16<<10))
	}
	own := p.texts[:len(text):len(text)]
	p.texts = p.texts[copy(own, text):]
	return own
}

// addPart files a part of f; text are the attributes of its row.
func (p *parser) addPart(f *feature, x part, text []byte) {
	switch x.kind {
	case exonPart:
		f.exons = p.exons.add(f, f.exons, x)
	case cdsPart:
		if n := len(f.texts); n == 0 || !bytes.Equal(f.texts[n-1].text, text) {
			f.texts = append(f.texts, attributes{text: p.keep(text), gtf: f.gtf}.indexed())
		}
		x.text = int32(len(f.texts) - 1)
		f.cds = p.cds.add(f, f.cds, x)
	case utrPart:
		f.utrs = append(f.utrs, x)
	case startPart:
		f.starts = append(f.starts, x)
	case stopPart:
		f.stops = append(f.stops, x)
	case selenoPart:
		f.seleno = append(f.seleno, x)
	}
}

// of are the attributes of one of f's CDS rows.
func (f *feature) of(x *part) attributes { return f.texts[x.text] }

// sequenceRegion compares a declared contig with the genome's.
func (p *parser) sequenceRegion(f []string) error {
	if len(f) != 4 {
		return errors.New("##sequence-region: want a name, a start and an end")
	}
	c := p.genome.Contig(decode(f[1]))
	if c == nil {
		return nil
	}
	end, err := strconv.Atoi(f[3])
	if err != nil {
		return fmt.Errorf("##sequence-region: end %q is not a number", f[3])
	}
	if end != c.Len() {
		return fmt.Errorf("##sequence-region: contig %q ends at %d, but the reference has %d bases: they do not belong together", c.Name, end, c.Len())
	}
	return nil
}

// build makes the model from the rows read.
func (p *parser) build() (*Model, error) {
	if p.known == 0 && len(p.foreign) == 0 {
		return nil, errors.New("no gene, exon or CDS in it: neither GFF3 nor GTF")
	}
	if p.known == 0 {
		return nil, fmt.Errorf("no contig in common: the gene model has %s, the reference has %s", nameList(p.foreign), nameList(p.genome.Names())+": give their other names with --contig-synonyms")
	}
	for _, name := range p.foreign {
		rows := p.regions[name].rows
		p.faults.noteMany(UnknownContig, rows, 0, "contig %q is not in the reference: its %d rows are left out", name, rows)
	}
	b := builder{
		model:   &Model{contigs: map[*genome.Contig]*track{}, regulation: map[*genome.Contig]*regulatoryTrack{}},
		genes:   map[*feature]*gene{},
		codes:   p.codes,
		faults:  &p.faults,
		addStop: !p.stopRows,
	}
	return b.build(p)
}

// nameList names the first few of many.
func nameList(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
