package cram

import "fmt"

// mates gives the records of a template that are in one slice what they say of each other: each of the
// next, and the last of the first (section 10.4).
func (s *slice) mates() error {
	follows := make([]bool, len(s.records)) // one before
	for i := range s.records {
		if next := s.records[i].next; next > 0 {
			if follows[next-s.from] {
				return fmt.Errorf("record %d: two records have it as their next", next+1)
			}
			follows[next-s.from] = true
		}
	}
	var template []*record
	for i := range s.records {
		r := &s.records[i]
		if len(r.name) == 0 && !follows[i] {
			r.name = s.generatedName(r)
		}
		if follows[i] || r.next == 0 {
			continue
		}
		template = append(template[:0], r)
		for next := r.next; next > 0; {
			r := &s.records[next-s.from]
			template = append(template, r)
			next = r.next
		}
		pair(template)
	}
	return nil
}

// pair fills in what the records of a template say of each other.
func pair(template []*record) {
	left, right, leftmost, one := template[0].start, template[0].end, 0, true
	for _, r := range template {
		one = one && r.reference == template[0].reference && r.reference >= 0
		right = max(right, r.end)
		switch {
		case r.start < left:
			left, leftmost = r.start, 1
		case r.start == left:
			leftmost++
		}
	}
	for i, r := range template {
		mate := template[(i+1)%len(template)]
		if len(r.name) == 0 {
			r.name = template[0].name
		}
		r.mateReference, r.mateStart = mate.reference, mate.start
		if mate.flags&flagReverse != 0 {
			r.flags |= flagMateReverse
		}
		if mate.flags&flagUnmapped != 0 {
			r.flags |= flagMateUnmapped
		}
		if !one || (r.flags|mate.flags)&flagUnmapped != 0 {
			continue
		}
		// The leftmost has the span, the others its negative; where several begin there, the first
		// of the template is the leftmost.
		if r.span = right - left + 1; r.start != left || leftmost > 1 && r.flags&flagFirst == 0 {
			r.span = -r.span
		}
	}
}
