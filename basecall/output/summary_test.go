package output

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSummarise reads what another basecaller and aligner may write: CIGARs with M,
// no tags at all, hard clips, secondary records.
func TestSummarise(t *testing.T) {
	const header = "@HD\tVN:1.6\n@SQ\tSN:chr1\tLN:1000\n@RG\tID:g\tDS:runid=run1 basecall_model=hac\tDT:2026-03-01T11:00:00.250+01:00\n"
	for _, tt := range []struct{ name, line, want string }{
		{
			"matches by NM", "r1\t0\tchr1\t11\t60\t2S4M1I3M2D2M1H\t*\t0\t0\tACGTACGTACGT\t*\tRG:Z:g\tNM:i:4\tqs:i:12\tdu:f:2\tns:i:8000\tts:i:800\tBC:Z:bc01\tst:Z:2026-03-01T10:00:10.500Z\tML:B:C\tMM:Z:\ter:Z:\tpi:Z:whole",
			"-\tr1\trun1\t-\t-\t10.250000\t2.000000\t10.450000\t1.800000\t12\t12.000000\tbc01\t-\t-\tchr1\t10\t21\t2\t12\t+\t12\t9\t8\t1\t2\t1\t60\t0.769231\t0.888889\t0.666667\twhole\t2026-03-01T10:00:10.500Z",
		},
		{
			"M without NM tells no matches", "r2\t16\tchr1\t11\t7\t3S5M\t*\t0\t0\tACGTACGT\t*",
			"-\tr2\t-\t-\t-\t-\t-\t-\t-\t8\t-\t-\t-\t-\tchr1\t10\t15\t0\t5\t-\t5\t5\t-\t0\t0\t-\t7\t0.625000\t-\t-\tr2\t-",
		},
		{
			"unmapped", "r3\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\t*\tch:i:17",
			"-\tr3\t-\t17\t-\t-\t-\t-\t-\t4\t-\t-\t-\t-" + strings.Repeat("\t-", 16) + "\tr3\t-",
		},
		{"secondary", "r1\t256\tchr1\t11\t0\t4M\t*\t0\t0\t*\t*", ""},
		{"supplementary", "r1\t2048\tchr1\t11\t0\t4M\t*\t0\t0\tACGT\t*", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, Summarise(&out, strings.NewReader(header+tt.line+"\n")))
			title, line, _ := strings.Cut(out.String(), "\n")
			require.Equal(t, strings.Join(summaryColumns, "\t"), title)
			require.Equal(t, tt.want, strings.TrimSuffix(line, "\n"))
		})
	}
	require.ErrorContains(t, Summarise(new(bytes.Buffer), strings.NewReader("")), "the file has 0 bytes")
	require.ErrorContains(t, Summarise(new(bytes.Buffer), strings.NewReader("\x1f\x8bnot really")), "reading the header")
	require.ErrorContains(t, Summarise(new(bytes.Buffer), strings.NewReader(header+"r1\t0\tchr1\tx\n")), "reading record 1")
}
