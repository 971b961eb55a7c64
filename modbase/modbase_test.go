package modbase

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	tags, err := Parse("C+mh?,0,12;N-76792.,3;T+x;", []byte{1, 2, 3, 4, 5}, 20)
	require.NoError(t, err)
	require.Equal(t, &Tags{Length: 20, Lists: []List{
		{Base: 'C', Codes: []Code{'m', 'h'}, Skipped: Unknown, Skips: []int32{0, 12}, Probabilities: []byte{1, 2, 3, 4}},
		{Base: 'N', Opposite: true, Codes: []Code{-76792}, Skipped: Unmodified, Skips: []int32{3}, Probabilities: []byte{5}},
		{Base: 'T', Codes: []Code{'x'}, Probabilities: []byte{}},
	}}, tags)
	require.False(t, tags.Lists[0].Implicit())
	require.True(t, tags.Lists[1].Implicit())
	require.True(t, tags.Lists[2].Implicit())
	require.Equal(t, []Code{'x'}, tags.Unlisted())

	for mm, says := range map[string]string{
		"C+m,0":                     "no ; at its end",
		"D+m;":                      "want a base",
		"C*m;":                      "want a base",
		"C+;":                       "want a base",
		"C+?;":                      "it has no code",
		"C+m1;":                     "a code is a letter",
		"C+1m;":                     "a number must stand alone",
		"C+0;":                      "a number must stand alone",
		"C+99999999999;":            "a number must stand alone",
		"C+m?.;":                    "a code is a letter",
		"C+m,;":                     "whole numbers",
		"C+m,1,,2;":                 "whole numbers",
		"C+m,-1;":                   "whole numbers",
		"C+m, 1;":                   "whole numbers",
		"C+m,1,;":                   "whole numbers",
		"C+m,2147483648;":           "more bases than a read can have",
		";":                         "want a base",
		"C+m,1;;":                   "want a base",
		"C+m,1;junk":                "no ; at its end",
		"C+m,18446744073709551617;": "more bases than a read can have",
	} {
		_, err := Parse(mm, nil, 0)
		require.ErrorIs(t, err, ErrSyntax, mm)
		require.ErrorContains(t, err, says, mm)
	}
}

func TestCodes(t *testing.T) {
	for text, want := range map[string]Code{"m": 'm', "76792": -76792} {
		c, err := ParseCode(text)
		require.NoError(t, err)
		require.Equal(t, want, c)
		require.Equal(t, text, c.String())
		require.True(t, c.Known())
	}
	for _, text := range []string{"", "mh", "0", "-4", "+4", "?", "1m", "99999999999"} {
		_, err := ParseCode(text)
		require.Error(t, err, text)
	}
	codes := []Code{-30, 'm', -4, 'h', 'C'}
	slices.SortFunc(codes, Code.Compare)
	require.Equal(t, []Code{'C', 'h', 'm', -4, -30}, codes)
	require.Zero(t, Code('m').Compare('m'))
}

// FuzzTags: whatever the tags are, those that are taken are written as they were read, are of the read or
// aren't in both directions, and their parts have together the calls of the whole.
func FuzzTags(f *testing.F) {
	f.Add("C+m?,0,1;", []byte{10, 20}, "ACGTCCGGACGT", 0, 5)
	f.Add("C+mh,0;N-76792.,3;", []byte{1, 2, 3}, "ACGTCCGGACGT", 12, 3)
	f.Add("U+e,9;", []byte{}, "TTTT", 4, 0)
	f.Fuzz(func(t *testing.T, mm string, ml []byte, bases string, length, at int) {
		tags, err := Parse(mm, ml, max(0, length))
		if err != nil {
			return
		}
		again, err := Parse(tags.MM(), tags.ML(), tags.Length)
		require.NoError(t, err)
		require.Equal(t, tags.MM(), again.MM())
		require.Equal(t, string(tags.ML()), string(again.ML()))
		s := Sequence{Bases: []byte(strings.Map(func(r rune) rune {
			if strings.ContainsRune("ACGTN", r) {
				return r
			}
			return 'N'
		}, bases))}
		reversed := Sequence{Bases: slices.Clone(s.Bases), Reversed: true}
		slices.Reverse(reversed.Bases)
		for i, b := range reversed.Bases {
			reversed.Bases[i] = complement[b]
		}
		err = tags.Check(s)
		require.Equal(t, err, tags.Check(reversed))
		if err != nil {
			_, err = tags.Slice(s, 0, len(s.Bases))
			require.Error(t, err)
			return
		}
		calls := slices.Collect(tags.Calls(s))
		require.Equal(t, calls, slices.Collect(tags.Calls(reversed)))
		at = max(0, min(at, len(s.Bases)))
		var parts []Call
		for _, part := range [][2]int{{0, at}, {at, len(s.Bases)}} {
			cut, err := tags.Slice(s, part[0], part[1])
			require.NoError(t, err)
			of := Sequence{Bases: s.Bases[part[0]:part[1]]}
			require.NoError(t, cut.Check(of))
			for call := range cut.Calls(of) {
				call.At += part[0]
				parts = append(parts, call)
			}
		}
		require.Equal(t, calls, parts)
	})
}

// Places of packed bases are those of the same bases as letters, and both are those that going through the bases one by one gives.
func TestPlacesOfPackedBases(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 3000 {
		most := []int{70, 500}[round%2] // bases are passed one by one, sixteen at a time, and 64 at a time
		letters := make([]byte, rng.IntN(most))
		for i := range letters {
			letters[i] = "ACGTACGTACGTN="[rng.IntN(14)]
		}
		pairs := sam.NewSeq(letters).Seq
		if len(letters)%2 == 1 {
			pairs[len(pairs)-1] |= sam.Doublet(1 << rng.IntN(4)) // the specification leaves open what follows the last base
		}
		l := List{Base: "ACGTUN"[rng.IntN(6)], Skips: make([]int32, rng.IntN(8))}
		for i := range l.Skips {
			l.Skips[i] = int32(rng.IntN(1 + rng.IntN(most/4)))
		}
		for _, reversed := range []bool{false, true} {
			s := Sequence{Bases: letters, Reversed: reversed}
			var want []int32
			at, enough := 0, true
			for _, skip := range l.Skips {
				for ; at < len(letters); at++ {
					if l.Base != 'N' && s.at(at) != l.base() {
						continue
					}
					if skip == 0 {
						break
					}
					skip--
				}
				if enough = at < len(letters); !enough {
					break
				}
				want = append(want, int32(at))
				at++
			}
			plain, plainErr := l.Places(nil, s)
			packed, packedErr := PlacesPacked(nil, &l, Packed[sam.Doublet]{Pairs: pairs, Length: len(letters), Reversed: reversed})
			require.Equal(t, want, plain)
			require.Equal(t, want, append([]int32(nil), packed...))
			if enough {
				require.NoError(t, plainErr)
				require.NoError(t, packedErr)
				continue
			}
			require.ErrorIs(t, plainErr, ErrBehind)
			require.EqualError(t, packedErr, plainErr.Error())
		}
	}
}
