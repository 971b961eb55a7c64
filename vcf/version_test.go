package vcf

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is written is of the least version that holds it, so that as many programs as possible read it.
func TestVersionIsTheLeastThatTheFileNeeds(t *testing.T) {
	for _, c := range []struct {
		sample string
		asked  Version
		want   Version
		says   string // what needs more
		fault  string
	}{
		{"s", "", "4.2", "", ""},
		{"s", "4.2", "4.2", "", ""},
		{"s", "4.4", "4.4", "", ""},
		{"s", "4.5", "4.5", "", ""},
		{"Søren", "", "4.3", `the sample name "Søren" is not ASCII`, ""},
		{"Søren", "4.5", "4.5", `the sample name "Søren" is not ASCII`, ""},
		{"Søren", "4.2", "4.3", `the sample name "Søren" is not ASCII`, `VCF 4.2 can't be written: the sample name "Søren" is not ASCII, which needs VCF 4.3`},
	} {
		h := NewHeader("VCFv4.2", c.sample)
		err := h.SetVersion(c.asked)
		if c.fault == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.fault)
		}
		require.Equal(t, "##fileformat=VCFv"+string(c.want), h.Meta[0])
		require.Equal(t, c.says != "", strings.Contains(strings.Join(h.Meta, "\n"), "##fileformat_needed_by="+c.says) && len(h.Meta) == 2)
		r, err := NewReader(strings.NewReader(write(t, h, nil)))
		require.NoError(t, err)
		require.Equal(t, h.Meta, r.Header().Meta)
	}
	var v Version
	for _, s := range []string{"4.1", "4.6", "VCFv4.2", "", "4"} {
		require.Error(t, v.Set(s), s)
	}
	require.NoError(t, v.Set("4.3"))
	require.Equal(t, "4.3", v.String())
}
