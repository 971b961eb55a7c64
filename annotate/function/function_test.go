package function

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
)

// The excerpts have the columns of the real formats; the annotations are shortened.
const (
	gafText = `!gaf-version: 2.2
!
!generated-by: GOC
!date-generated: 2026-09-15T02:13
!go-version: releases/2026-09-12
UniProtKB	P38398	BRCA1	enables	GO:0005515	PMID:1	IPI	UniProtKB:Q1	F	Breast cancer type 1 susceptibility protein	BRCA1|RNF53	protein	taxon:9606	20260101	UniProt		
UniProtKB	P38398	BRCA1	enables	GO:0005515	PMID:2	IDA		F	Breast cancer type 1 susceptibility protein	BRCA1|RNF53	protein	taxon:9606	20260101	UniProt		
UniProtKB	P38398	BRCA1	involved_in	GO:0006281	PMID:3	IDA		P	Breast cancer type 1 susceptibility protein	BRCA1|RNF53	protein	taxon:9606	20260101	UniProt		
UniProtKB	P38398	BRCA1	NOT|enables	GO:0003677	PMID:4	IDA		F	Breast cancer type 1 susceptibility protein	BRCA1|RNF53	protein	taxon:9606	20260101	UniProt		
UniProtKB	Q00000	RNF53	part_of	GO:0005634	PMID:5	IEA		C	Other	OLDNAME	protein	taxon:9606	20260101	UniProt		
UniProtKB	Q00000	RNF53	part_of	GO:0000001	PMID:5	IEA		C	Other	OLDNAME	protein	taxon:9606	20260101	UniProt		
`
	gpad1Text = `!gpa-version: 1.1
!Submission Date: 9/15/2026
UniProtKB	P38398	enables	GO:0005515	PMID:1	ECO:0000353	UniProtKB:Q1		20260101	UniProt		go_evidence=IPI
UniProtKB	P38398	NOT|enables	GO:0003677	PMID:1	ECO:0000314			20260101	UniProt		go_evidence=IDA
`
	gpad2Text = `!gpad-version: 2.0
!generated: 2026-09-15
UniProtKB:P38398		RO:0002327	GO:0005515	PMID:1	ECO:0000353	UniProtKB:Q1		2026-01-01	UniProt		
UniProtKB:P38398	NOT	RO:0002327	GO:0003677	PMID:1	ECO:0000314			2026-01-01	UniProt		
`
	scanText = `NP_1.1	14086411a2cdf1c4cba63020e1622579	300	Pfam	PF00001	7 transmembrane, receptor	11	50	2.1E-9	T	15-09-2026	IPR000276	GPCR, rhodopsin-like	GO:0004930(InterPro)|GO:0007186(InterPro)	Reactome:R-HSA-1|MetaCyc: PWY-2
NP_1.1	14086411a2cdf1c4cba63020e1622579	300	MobiDBLite	mobidb-lite	consensus disorder prediction	60	80	-	T	15-09-2026	-	-
NP_1.1	14086411a2cdf1c4cba63020e1622579	300	Pfam	PF00002	found false	60	80	-	F	15-09-2026	-	-	-	-
`
	interProText = "protein\tstart\tend\tdb\taccession\tdescription\tinterpro\tgo\nNP_1\t5\t9\tSMART\tSM1\tA domain\tIPR1\tGO:0004930|GO:0007186\nNP_1\t5\t9\tCDD\tcd2\n"
	gmtText      = "KEGG_REPAIR\thttps://www.gsea-msigdb.org/x\tBRCA1\tBRCA2\nR-HSA-2\tDNA repair\tBRCA1\n"
	oboText      = `format-version: 1.2
data-version: releases/2026-09-12

[Term]
id: GO:0005515
name: protein binding
alt_id: GO:0045308

[Term]
id: GO:0000001
name: obsolete mitochondrion inheritance
is_obsolete: true

[Typedef]
id: part_of
name: part of
`
)

func read(t testing.TB, text, name string) *File {
	t.Helper()
	f, err := Read(strings.NewReader(text), name)
	require.NoError(t, err)
	return f
}

// list renders functions.
func list(fs []annotate.Function) []string {
	var out []string
	for _, f := range fs {
		s := strings.TrimSpace(fmt.Sprintf("%s %s %s %s", f.Kind, f.DB, f.ID, f.Relation))
		if f.Name != "" {
			s += " (" + f.Name + ")"
		}
		if f.End > 0 {
			s += fmt.Sprintf(" %d-%d", f.Start, f.End)
		}
		out = append(out, s+" "+strings.Join(f.Evidence, ","))
	}
	return out
}

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		text, name, format, version, date string
		entries, negated                  int
		product                           annotate.Product
		want                              []string
	}{
		{gafText, "goa", "GAF", "releases/2026-09-12", "2026-09-15", 5, 1, annotate.Product{Gene: &annotate.Gene{Symbol: "BRCA1"}},
			[]string{"term GO GO:0005515 enables IDA,IPI", "term GO GO:0006281 involved_in IDA"}},
		{gafText, "goa", "GAF", "releases/2026-09-12", "2026-09-15", 5, 1, annotate.Product{Gene: &annotate.Gene{Symbol: "RNF53"}},
			[]string{"term GO GO:0005634 part_of IEA", "term GO GO:0000001 part_of IEA"}}, // a symbol before a synonym
		{gafText, "goa", "GAF", "releases/2026-09-12", "2026-09-15", 5, 1, annotate.Product{Gene: &annotate.Gene{Symbol: "OLDNAME"}},
			[]string{"term GO GO:0005634 part_of IEA", "term GO GO:0000001 part_of IEA"}},
		{gafText, "goa", "GAF", "releases/2026-09-12", "2026-09-15", 5, 1, annotate.Product{Gene: &annotate.Gene{ID: "gene:P38398.2", Symbol: "RNF53"}},
			[]string{"term GO GO:0005515 enables IDA,IPI", "term GO GO:0006281 involved_in IDA"}}, // an identifier before a symbol
		{gafText, "goa", "GAF", "releases/2026-09-12", "2026-09-15", 5, 1, annotate.Product{Gene: &annotate.Gene{Symbol: "TP53"}}, nil},
		{gpad1Text, "x", "GPAD 1", "", "", 1, 1, annotate.Product{Protein: "P38398"}, []string{"term GO GO:0005515 enables IPI"}},
		{gpad2Text, "x", "GPAD 2", "", "2026-09-15", 1, 1, annotate.Product{Gene: &annotate.Gene{ID: "UniProtKB:P38398"}},
			[]string{"term GO GO:0005515 RO:0002327 ECO:0000353"}},
		{scanText, "x", "InterProScan", "", "", 7, 0, annotate.Product{Protein: "NP_1.1", First: 50, Last: 60},
			[]string{"domain Pfam PF00001 (7 transmembrane, receptor) 11-50 ", "domain InterPro IPR000276 (GPCR, rhodopsin-like) 11-50 ",
				"term GO GO:0004930 ", "term GO GO:0007186 ", "set Reactome R-HSA-1 ", "set MetaCyc PWY-2 ",
				"domain MobiDBLite mobidb-lite (consensus disorder prediction) 60-80 "}},
		{scanText, "x", "InterProScan", "", "", 7, 0, annotate.Product{Protein: "NP_1.1", First: 51, Last: 59},
			[]string{"term GO GO:0004930 ", "term GO GO:0007186 ", "set Reactome R-HSA-1 ", "set MetaCyc PWY-2 "}},
		{interProText, "x", "InterPro", "", "", 5, 0, annotate.Product{Protein: "NP_1.3", First: 9, Last: 9},
			[]string{"domain SMART SM1 (A domain) 5-9 ", "domain InterPro IPR1 5-9 ", "term GO GO:0004930 ", "term GO GO:0007186 ", "domain CDD cd2 5-9 "}},
		{interProText, "x", "InterPro", "", "", 5, 0, annotate.Product{Protein: "NP_1", First: 10, Last: 9}, // after the domain's last residue
			[]string{"term GO GO:0004930 ", "term GO GO:0007186 "}},
		{gmtText, "c2.cp.v2026.1.Hs.symbols", "GMT", "2026.1", "", 3, 0, annotate.Product{Gene: &annotate.Gene{ID: "x", Symbol: "BRCA1"}},
			[]string{"set c2.cp.v2026.1.Hs.symbols KEGG_REPAIR ", "set c2.cp.v2026.1.Hs.symbols R-HSA-2 (DNA repair) "}},
	} {
		t.Run(c.format, func(t *testing.T) {
			f := read(t, c.text, c.name)
			require.Equal(t, c.format, f.Format)
			require.Equal(t, c.entries, f.Entries)
			require.Equal(t, c.negated, f.Negated)
			if c.version == "" {
				require.Regexp(t, "^sha256:[0-9a-f]{12}$", f.Version)
			} else {
				require.Equal(t, c.version, f.Version)
			}
			require.Equal(t, c.date, f.Date)
			s := NewSet(f)
			for range 2 { // the second answer is a remembered one
				got := s.Functions(c.product)
				require.Equal(t, c.want, list(got))
				for _, fn := range got {
					require.Equal(t, []string{c.name, f.Version, c.date}, []string{fn.Source, fn.Version, fn.Date})
				}
			}
		})
	}
}

func TestOntologyNamesAndRetires(t *testing.T) {
	s := NewSet(read(t, gafText, "goa"), read(t, oboText, "go"), read(t, gmtText, "sets"),
		read(t, strings.ReplaceAll(gpad2Text, "GO:0005515", "GO:0045308"), "gpad"))
	require.Len(t, s.Files, 3)
	require.Equal(t, 1, s.Obsolete)
	require.Equal(t, []string{
		"term GO GO:0005515 enables (protein binding) IDA,IPI", "term GO GO:0006281 involved_in IDA",
		"set sets KEGG_REPAIR ", "set sets R-HSA-2 (DNA repair) ", "term GO GO:0005515 RO:0002327 (protein binding) ECO:0000353",
	}, list(s.Functions(annotate.Product{Gene: &annotate.Gene{Symbol: "BRCA1"}, Protein: "P38398"})))
	require.Equal(t, []string{"term GO GO:0005634 part_of IEA"}, list(s.Functions(annotate.Product{Gene: &annotate.Gene{Symbol: "RNF53"}})))
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "no annotations"},
		{"!gaf-version: 2.2\n", ""},
		{"!gaf-version: 1.0\n", `line 1: GAF version "1.0": want 2.x`},
		{"!gpad-version: 3\n", `line 1: GPAD version "3"`},
		{"!gaf-version: 2.2\nUniProtKB\tP1\tX\n", "line 2: 3 columns, want at least 15 of a GAF"},
		{"!gaf-version: 2.2\n" + strings.Repeat("x\t", 16) + "\n", `line 2: term "x": want one such as GO:0008150`},
		{"!gpad-version: 2.0\nP1\t\tRO:1\tGO:1\ta\tb\tc\td\te\tf\n", `line 2: identifier "P1": want DB:ID`},
		{"one\ttwo\n", "line 1: not GAF, GPAD, InterProScan, InterPro, GMT or OBO"},
		{"P\t1\t2\tPfam\tPF1\nP\t3\t2\tPfam\tPF1\n", `line 2: "3" to "2" is not a stretch of a protein`},
		{"P\t1\t2\tPfam\tPF1\nP\t0\t2\n", "line 2: 3 columns, want at least protein, start"},
		{"S\td\tG1\nS2\n", "line 2: 1 columns, want a set"},
		{"S\td\tG1\n!gaf-version: 2.2\n", "line 2: GAF within GMT"},
		{"S\td\t" + strings.Repeat("x", maxLine) + "\n", "a line is longer than"},
	} {
		_, err := Read(strings.NewReader(c.text), "x")
		if c.want == "" {
			require.NoError(t, err, "a file may annotate nothing")
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
	_, err := LoadSet(filepath.Join(t.TempDir(), "gone.gaf"))
	require.ErrorContains(t, err, "gone.gaf")
}

func TestLoadGzip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "goa_human.gaf.gz")
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(gafText))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	s, err := LoadSet(path)
	require.NoError(t, err)
	require.Equal(t, "goa_human", s.Files[0].Name)
	require.Equal(t, 5, s.Files[0].Entries)
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{gafText, gpad1Text, gpad2Text, scanText, interProText, gmtText, oboText} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			return
		}
		file, err := Read(strings.NewReader(text), "x")
		if err != nil {
			return
		}
		s := NewSet(file)
		for id := range file.byID {
			for _, fn := range s.Functions(annotate.Product{Protein: id, First: 1, Last: 1 << 30}) {
				if fn.ID == "" && fn.Kind == annotate.Domain || fn.Version == "" {
					t.Fatalf("%+v", fn)
				}
			}
		}
	})
}
