package codec

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Kinds of tokens (section 5): what there is to read at a place of a name.
const (
	tokenType = iota
	tokenString
	tokenChar
	tokenDigits0
	tokenWidth
	tokenDuplicate
	tokenDifference
	tokenDigits
	tokenDelta
	tokenDelta0
	tokenMatch
	tokenNothing
	tokenEnd
	tokenKinds

	maxTokens = 128
)

// token is a part of a name that was decoded: what those behind it may repeat.
type token struct {
	kind     byte
	width    byte // of digits
	number   uint32
	from, to int32 // where its text is
}

// tokens decodes names as tokens, each by one before.
type tokens struct {
	streams [maxTokens][tokenKinds]cursor
	// implied are the kinds of the next tokens of places whose types are left out, as all but the
	// first match those of the name before.
	implied [maxTokens]byte
	left    [maxTokens]bool // out
	out     []byte
	tokens  []token
	names   []decoded
}

// decoded is where a name's text and tokens are.
type decoded struct{ from, to, first, last int }

// decodeNames decodes names, each with 0 behind it, of size bytes.
func decodeNames(data []byte, size int) ([]byte, error) {
	c := &cursor{data: data}
	length, count, arithmetic := c.uint32(), c.uint32(), c.byte()
	if c.err == nil && uint64(length) != uint64(size) || uint64(count) > uint64(size) {
		return nil, errLong
	}
	t := &tokens{out: make([]byte, 0, min(size, 1<<20))}
	if err := t.read(c, size, arithmetic != 0); err != nil {
		return nil, err
	}
	for i := range int(count) {
		if err := t.name(); err != nil {
			return nil, fmt.Errorf("name %d: %w", i, err)
		}
		if len(t.out) > size {
			return nil, errLong
		}
	}
	return t.out, nil
}

// read decompresses the streams of what stands at each place.
func (t *tokens) read(c *cursor, size int, arithmetic bool) error {
	const (
		duplicate = 64
		further   = 128
	)
	decode := (*cursor).ransNx16
	if arithmetic {
		decode = (*cursor).arithmetic
	}
	left := 16*size + 1<<12 // a byte of a name is made of five, and a place of one at least
	place := -1
	for c.err == nil && len(c.data) > 0 {
		head := c.byte()
		kind := int(head & 63)
		if head&further != 0 {
			place++
		}
		if place < 0 || place >= maxTokens || kind >= tokenKinds {
			return errors.New("a stream of tokens is of no place or kind")
		}
		if head&further != 0 && kind != tokenType {
			t.implied[place], t.left[place] = byte(kind), true
		}
		if head&duplicate != 0 {
			otherPlace, otherKind := int(c.byte()), int(c.byte())
			if otherPlace > place || otherKind >= tokenKinds {
				return errors.New("a stream of tokens repeats one that there isn't")
			}
			t.streams[place][kind] = t.streams[otherPlace][otherKind]
			continue
		}
		stream := cursor{data: c.take(c.uint7())}
		if c.err != nil {
			return c.err
		}
		n, err := stream.length()
		if err != nil {
			return err
		}
		if left -= n; left < 0 {
			return errLong
		}
		data, err := stream.transformed(n, false, decode)
		if err != nil {
			return err
		}
		t.streams[place][kind] = cursor{data: data}
	}
	return c.err
}

// length is the size of what a stream of rANS Nx16 or arithmetic coding holds, by its start.
func (c *cursor) length() (int, error) {
	ahead := *c
	if ahead.byte()&flagNoSize != 0 {
		return 0, errors.New("a stream of tokens has no size")
	}
	n := ahead.uint7()
	return n, ahead.err
}

// kind is what the next token at a place is.
func (t *tokens) kind(place int) byte {
	if !t.left[place] {
		return t.streams[place][tokenType].byte()
	}
	kind := t.implied[place]
	t.implied[place] = tokenMatch
	return kind
}

// name decodes the next name.
func (t *tokens) name() error {
	streams := &t.streams[0]
	kind := t.kind(0)
	if kind != tokenDuplicate && kind != tokenDifference || streams[tokenType].err != nil {
		return errors.New("it is neither a duplicate nor different")
	}
	distance := int64(streams[kind].uint32())
	if streams[kind].err != nil || distance > int64(len(t.names)) || distance == 0 && kind == tokenDuplicate {
		return errors.New("it is made of one that there isn't")
	}
	var other decoded
	if distance > 0 {
		other = t.names[len(t.names)-int(distance)]
	}
	if kind == tokenDuplicate {
		t.out = append(t.out, t.out[other.from:other.to]...)
		t.out = append(t.out, 0)
		t.names = append(t.names, decoded{len(t.out) - 1 - (other.to - other.from), len(t.out) - 1, other.first, other.last})
		return nil
	}
	own := decoded{from: len(t.out), first: len(t.tokens)}
	for place := 1; ; place++ {
		if place == maxTokens {
			return errors.New("it has no end")
		}
		var like token
		if at := other.first + place - 1; at < other.last {
			like = t.tokens[at]
		}
		next, err := t.token(place, like)
		if err != nil {
			return err
		}
		if next.kind == tokenEnd {
			break
		}
		t.tokens = append(t.tokens, next)
	}
	own.to, own.last = len(t.out), len(t.tokens)
	t.names = append(t.names, own)
	t.out = append(t.out, 0)
	return nil
}

// token decodes the token at a place, in which the name that this one is made of has like.
func (t *tokens) token(place int, like token) (token, error) {
	streams := &t.streams[place]
	kind := t.kind(place)
	if err := streams[tokenType].err; err != nil {
		return token{}, err
	}
	if int(kind) >= tokenKinds {
		return token{}, errors.New("a token is of no kind")
	}
	stream := &streams[kind]
	next := token{kind: kind}
	wrong := func(want byte) bool { return like.kind != want }
	switch kind {
	case tokenString:
		end := bytes.IndexByte(stream.data, 0)
		if end < 0 {
			return next, errShort
		}
		t.text(&next, stream.take(end))
		stream.take(1)
	case tokenChar:
		t.text(&next, []byte{stream.byte()})
	case tokenDigits:
		next.number = stream.uint32()
		t.digits(&next)
	case tokenDigits0:
		next.number, next.width = stream.uint32(), streams[tokenWidth].byte()
		if err := streams[tokenWidth].err; err != nil {
			return next, err
		}
		t.digits(&next)
	case tokenDelta, tokenDelta0:
		if kind == tokenDelta && wrong(tokenDigits) || kind == tokenDelta0 && wrong(tokenDigits0) {
			return next, errors.New("a difference to what is no number")
		}
		next = like
		next.number += uint32(stream.byte())
		t.digits(&next)
	case tokenMatch:
		if like.kind == 0 {
			return next, errors.New("it matches a token that there isn't")
		}
		next = like
		t.text(&next, t.out[like.from:like.to])
	case tokenEnd, tokenNothing:
	default:
		return next, errors.New("a token is of no kind that names have")
	}
	return next, stream.err
}

func (t *tokens) text(k *token, text []byte) {
	k.from = int32(len(t.out))
	t.out = append(t.out, text...)
	k.to = int32(len(t.out))
}

func (t *tokens) digits(k *token) {
	k.from = int32(len(t.out))
	var digits [10]byte
	number := strconv.AppendUint(digits[:0], uint64(k.number), 10)
	for n := len(number); n < int(k.width); n++ {
		t.out = append(t.out, '0')
	}
	t.out = append(t.out, number...)
	k.to = int32(len(t.out))
}
