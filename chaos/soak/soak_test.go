package soak

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hour is an hour of samples, 10 s apart, of a processor and an ingest that are well.
func hour() Series {
	s := Series{Processes: []string{"processor-1", "ingest"}}
	for i := range 360 {
		wave := int64(i % 7)
		s.Samples = append(s.Samples, Sample{
			At: time.Duration(i+1) * 10 * time.Second, Lag: 10 + wave, Called: float64(i+1) * 800_000,
			Processes: []Process{{Resident: 300<<20 + wave<<20, Descriptors: 40 + int(wave)}, {Resident: 60 << 20, Descriptors: 20}},
		})
	}
	return s
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(i int, x *Sample)
		want   []string
	}{
		{"flat", func(int, *Sample) {}, nil},
		{"grows while warming up", func(i int, x *Sample) { x.Processes[0].Resident -= int64(max(0, 120-i)) << 20 }, nil},
		{"a leak of 60 MiB an hour", func(i int, x *Sample) { x.Processes[0].Resident += int64(i) << 20 / 6 }, []string{"processor-1: resident memory from 332 to 352 MiB"}},
		{"a leak too small to tell", func(i int, x *Sample) { x.Processes[1].Resident += int64(i) << 10 }, nil},
		{"a descriptor a minute", func(i int, x *Sample) { x.Processes[1].Descriptors += i / 6 }, []string{"ingest: open descriptors from 59 to 79"}},
		{"a peak is no trend", func(i int, x *Sample) {
			if i == 300 {
				x.Lag, x.Processes[0].Resident = 5000, 500<<20
			}
		}, nil},
		{"falls behind", func(i int, x *Sample) { x.Lag += int64(i) }, []string{"lag from 193 to 313 records"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := hour()
			for i := range s.Samples {
				tt.change(i, &s.Samples[i])
			}
			got, err := s.Check(DefaultLimits())
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestCheckNeedsEnough(t *testing.T) {
	t.Parallel()
	s := hour()
	s.Samples = s.Samples[:14]
	_, err := s.Check(DefaultLimits())
	require.ErrorContains(t, err, "14 measurements are too few, want 15")
}

// TestDraw checks that the picture is XML and has a line for everything in it.
func TestDraw(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, hour().Draw(&b, "1 processor & <ingest>"))
	require.NotContains(t, b.String(), "NaN")
	require.NotContains(t, b.String(), "Inf")
	lines, texts := 0, ""
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			for _, a := range token.Attr {
				if a.Name.Local == "stroke-width" {
					lines++
				}
			}
		case xml.CharData:
			texts += string(token)
		}
	}
	require.Equal(t, 2+2+1+1, lines)
	require.Contains(t, texts, "1 processor & <ingest>")
	require.ErrorContains(t, Series{}.Draw(&b, ""), "too few")
}
