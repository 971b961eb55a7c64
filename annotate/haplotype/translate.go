package haplotype

// protein is a stretch of amino acids and, beside each, whether its codon starts or stops translation.
type protein struct {
	aminos, marks []byte
}

func (p *protein) reset() { p.aminos, p.marks = p.aminos[:0], p.marks[:0] }

func (p *protein) add(amino, mark byte) {
	p.aminos, p.marks = append(p.aminos, amino), append(p.marks, mark)
}

// cut ends the protein with its first stop and says whether there is one.
func (p *protein) cut() bool {
	for i, m := range p.marks {
		if m == '*' {
			p.aminos, p.marks = p.aminos[:i+1], p.marks[:i+1]
			return true
		}
	}
	return false
}

// stops reports whether the protein ends with a stop.
func (p *protein) stops() bool { return p.lastMark() == '*' }

func (p *protein) lastMark() byte {
	if len(p.marks) == 0 {
		return 0
	}
	return p.marks[len(p.marks)-1]
}

// frame is a stretch of the coding sequence of one haplotype, on the reference strand.
type frame struct {
	seq    []byte // the stretch
	offset int    // of it in the haplotype's coding sequence
	length int    // of the haplotype's coding sequence
	beg    int    // where it begins and ends in the reference's coding sequence
	end    int
	toEnd  bool // the frame is lost: what follows in transcript direction is translated, too
}

// translate sets p to the protein of the codons that f touches. ref is the reference's coding sequence with its pads;
// buf is memory to work with, which is returned.
func (p *protein) translate(t *transcript, ref []byte, f *frame, buf []byte) []byte {
	p.reset()
	if len(f.seq) == 0 {
		p.add('?', '?')
		return buf
	}
	buf = buf[:0]
	if t.forward {
		before := f.offset % 3
		buf = append(buf, between(ref, pad+f.beg-before, pad+f.beg)...)
		buf = append(buf, f.seq...)
		after := pad + f.end
		n := (3 - len(buf)%3) % 3
		buf = append(buf, between(ref, after, after+n)...)
		if f.toEnd {
			buf = append(buf, between(ref, after+n, len(ref)-pad)...)
		}
		for i := 0; i+3 <= len(buf); i += 3 {
			p.add(t.code.read(buf[i], buf[i+1], buf[i+2], true))
		}
		return buf
	}
	after := ((f.length-f.offset-len(f.seq))%3 + 3) % 3
	before := (3 - (len(f.seq)+after)%3) % 3
	from := pad + f.beg - before
	if f.toEnd && from > pad {
		from = pad + (from-pad)%3
	}
	buf = append(buf, between(ref, from, pad+f.beg)...)
	buf = append(buf, f.seq...)
	buf = append(buf, between(ref, pad+f.end, pad+f.end+after)...)
	for i := len(buf) - 3; i >= 0; i -= 3 {
		p.add(t.code.read(buf[i], buf[i+1], buf[i+2], false))
	}
	return buf
}

// between is b[from:to] as far as it goes.
func between(b []byte, from, to int) []byte {
	from, to = max(0, min(from, len(b))), max(0, min(to, len(b)))
	return b[from:max(from, to)]
}
