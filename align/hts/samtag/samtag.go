// Package samtag reads the tags of SAM records, which other programs may have
// written with any of the types that the specification allows (SAM specification 4.2.4).
package samtag

import "github.com/biogo/hts/sam"

// Value returns a tag's value, nil if the record has none.
func Value(r *sam.Record, tag string) any {
	aux, ok := r.Tag([]byte(tag))
	if !ok {
		return nil
	}
	return aux.Value()
}

// Text returns a tag that is text.
func Text(r *sam.Record, tag string) (string, bool) {
	text, ok := Value(r, tag).(string)
	return text, ok
}

// Int returns a tag that is a whole number, of whatever width.
func Int(r *sam.Record, tag string) (int, bool) {
	switch v := Value(r, tag).(type) {
	case int8:
		return int(v), true
	case uint8:
		return int(v), true
	case int16:
		return int(v), true
	case uint16:
		return int(v), true
	case int32:
		return int(v), true
	case uint32:
		return int(v), true
	}
	return 0, false
}
