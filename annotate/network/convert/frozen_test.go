package convert_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/network/convert"
)

// TestFrozenGraph: the networks that a frozen graph averages say together of random bases what TensorFlow computed with the graph, padded.
func TestFrozenGraph(t *testing.T) {
	name := filepath.Join("testdata", "tiny4")
	opts := options()
	opts.Info = ""
	m, files, err := convert.Convert([]string{name + ".pb"}, opts)
	require.NoError(t, err)
	require.Equal(t, 8, m.Input.Context)
	require.Len(t, m.Networks, 2)
	require.Equal(t, "CISpliceAI", m.Info)
	agree(t, files, name, 101)
	_, again, err := convert.Convert([]string{name + ".pb"}, opts)
	require.NoError(t, err)
	require.Equal(t, files, again)
	// One that is averaged with the two counts as each of them.
	m, _, err = convert.Convert([]string{name + ".pb", filepath.Join("testdata", "tiny.h5")}, opts)
	require.NoError(t, err)
	require.Len(t, m.Networks, 3)
}

func TestFrozenGraphRefused(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile(filepath.Join("testdata", "tiny4.pb"))
	require.NoError(t, err)
	for _, tt := range []struct{ name, from, to, want string }{
		{"another function", "Relu", "Selu", `is of the kind "Selu", which is not known there`},
		{"another kernel", "Conv2D", "Conv2d", "isn't a convolution of one dimension with a bias"},
		{"another order of axes", "NHWC", "NCHW", "has steps, or channels first"},
		{"other padding", "SAME", "SOME", `has the padding "SOME" at width 3`},
		{"no sum for the softmax", "Sum", "Sun", `of the kind "RealDiv"`},
		{"an unknown calculation of weights", "Rsqrt", "Rsqtr", `operator "mul_4" is of the kind "Mul"`},
		{"bases that aren't put together again", "BatchToSpaceND", "BatchToSpaceNX", "isn't a convolution"},
		{"not a mean", "Pack", "Peck", "is not the mean of networks' outputs"},
		{"too little context", "\x22\x0c\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00", "\x22\x0c\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00", "doesn't crop the same at both ends"},
		{"padding that isn't the same", "\x22\x08\x02\x00\x00\x00\x02\x00\x00\x00", "\x22\x08\x02\x00\x00\x00\x01\x00\x00\x00", "pads by what isn't understood"},
		{"padding by half", "\x22\x08\x02\x00\x00\x00\x02\x00\x00\x00", "\x22\x08\x01\x00\x00\x00\x01\x00\x00\x00", `has the padding "VALID" at width 3`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, len(tt.from), len(tt.to))
			require.True(t, bytes.Contains(good, []byte(tt.from)))
			file := filepath.Join(t.TempDir(), "bad.pb")
			require.NoError(t, os.WriteFile(file, bytes.ReplaceAll(good, []byte(tt.from), []byte(tt.to)), 0o600))
			_, _, err := convert.Convert([]string{file}, options())
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, "bad.pb")
			require.NotContains(t, err.Error(), "\n")
		})
	}
	for name, content := range map[string][]byte{"empty.pb": nil, "cut.pb": good[:len(good)/2], "text.pb": []byte("#!/bin/sh\necho no graph\n")} {
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, content, 0o600))
		_, _, err = convert.Convert([]string{file}, options())
		require.ErrorContains(t, err, name+": it is no frozen graph of TensorFlow")
	}
}
