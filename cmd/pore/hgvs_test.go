package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runHGVS runs pore hgvs on SARS-CoV-2.
func runHGVS(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "sarscov2")
	cmd := command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"hgvs", "--ref", filepath.Join(dir, "reference.fa.gz"), "--gff", filepath.Join(dir, "genes.gff3")}, args...))
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetIn(strings.NewReader(stdin))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

const spike = "NC_045512.2(S):c.1841A>G\tNC_045512.2(YP_009724390.1):c.1841A>G\tNC_045512.2:g.23403A>G\tYP_009724390.1:p.(Asp614Gly)\tNC_045512.2:23403:A:G\t.\n"

func TestHGVSCommand(t *testing.T) {
	out, err := runHGVS(t, "", "NC_045512.2(S):c.1841A>G")
	if err != nil || out != spike {
		t.Errorf("have %q %v, want %q", out, err, spike)
	}
}

// TestInsertionsBesideTheLastBase: what the 3' rule would move behind the last base stays between the last two.
func TestInsertionsBesideTheLastBase(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	ref, genes := write("ref.fa", ">c\nTTGCATCGATGAC\n"), write("genes.gff3", "##gff-version 3\nc\tx\tgene\t1\t13\t.\t+\t.\tID=g\n")
	for description, want := range map[string]string{
		"c:g.12_13insCCA": "c:g.12_13insCCA\t.\tc:11:G:GACC", // GAC CAC by either
		"c:g.12_13insGGG": "c:g.12_13insGGG\t.\tc:12:A:AGGG",
		"c:g.11_12insCAC": "c:g.11_12insCAC\t.\tc:11:G:GCAC", // C is not A, so it stays
		"c:g.12_13insC":   "c:g.13dup\t.\tc:12:A:AC",
	} {
		r := pore(t, "hgvs", "--ref", ref, "--gff", genes, description)
		require.NoError(t, r.err)
		assert.Contains(t, r.out, want)
	}
}

// TestHGVSErrorsStayInTheirLine: one line for each description, whatever is wrong with some.
func TestHGVSErrorsStayInTheirLine(t *testing.T) {
	in := "S:c.1841C>G\n\n  NC_045512.2(S):c.1841A>G\r\nX:c.1A>G\nS:p.Asp614Gly\nS:c.\t1A>G\nS:c.(1_2)_(5_6)del\n" +
		"NC_045512.2:g.[241C>T;23403A>G]"
	out, err := runHGVS(t, in, "--header", "-", "S:c.9_8del")
	if err == nil || err.Error() != "6 of 8 descriptions have an error" {
		t.Errorf("error %v", err)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	want := []string{
		"input\tnormalised\tg\tp\tvcf\terror",
		"S:c.1841C>G\t.\t.\t.\t.\t1841C>G says C, but the reference has A there",
		strings.TrimSuffix(spike, "\n"),
		"X:c.1A>G\t.\t.\t.\t.\ttranscript \"X\" is unknown: neither the gene model nor the reference has that name",
		"S:p.Asp614Gly\t.\t.\t.\t.\tp. describes a protein, which does not say what the DNA is: give a g., m., o., c. or n. description",
		"S:c. 1A>G\t.\t.\t.\t.\tcolumn 5: a description has no blanks",
		"S:c.(1_2)_(5_6)del\t.\t.\t.\t.\tuncertain position (1_2)_(5_6): a place that is not known exactly has no single sequence",
		"NC_045512.2:g.[241C>T;23403A>G]\tNC_045512.2:g.[241C>T;23403A>G]\tNC_045512.2:g.[241C>T;23403A>G]\tYP_009724390.1:p.(Asp614Gly)\tNC_045512.2:241:C:T;NC_045512.2:23403:A:G\t.",
		"S:c.9_8del\t.\t.\t.\t.\trange 9_8 is inverted: its first position is behind its last",
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), out)
	}
	for i := range want {
		if lines[i] != want[i] {
			t.Errorf("line %d: have %q\nwant %q", i+1, lines[i], want[i])
		}
	}
}

func TestHGVSAsJSON(t *testing.T) {
	out, err := runHGVS(t, "", "--format", "json", "--stop", "asterisk", "--parentheses=false", "S:c.1840G>T", "S:c.1842T>A", "S:g.1A>C")
	if err == nil {
		t.Error("no error")
	}
	dec := json.NewDecoder(strings.NewReader(out))
	var got []map[string]any
	for dec.More() {
		var o map[string]any
		if err := dec.Decode(&o); err != nil {
			t.Fatal(err)
		}
		got = append(got, o)
	}
	if len(got) != 3 || got[1]["p"] != "YP_009724390.1:p.Asp614Glu" || got[1]["error"] != nil || got[2]["error"] == nil || got[2]["g"] != nil {
		t.Errorf("%s", out)
	}
	if loci, _ := got[0]["vcf"].([]any); len(loci) != 1 || loci[0] != "NC_045512.2:23402:G:T" {
		t.Errorf("%s", out)
	}
}

func TestHGVSUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"--format", "xml", "S:c.1A>G"}, {"--stop", "x", "S:c.1A>G"}} {
		if out, err := runHGVS(t, "", args...); err == nil || out != "" {
			t.Errorf("%v: %q %v", args, out, err)
		}
	}
}
