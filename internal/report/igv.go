package report

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/porestream/porestream/wholefile"
)

// SessionName is the name of IGV's session in the folder of a run.
const SessionName = "igv_session.xml"

// Session is what IGV desktop opens beside the files of a run's folder.
type Session struct {
	Reference  string   // FASTA
	Genes      []string // GFF3 or GTF
	Alignments []string // BAM or CRAM, indexed
}

// igvSession is IGV's document, version 8.
type igvSession struct {
	XMLName   xml.Name      `xml:"Session"`
	Genome    string        `xml:"genome,attr"`
	Locus     string        `xml:"locus,attr"`
	Version   string        `xml:"version,attr"`
	Resources []igvResource `xml:"Resources>Resource"`
}

type igvResource struct {
	Path string `xml:"path,attr"`
	Name string `xml:"name,attr,omitempty"`
}

// WriteSession writes a session for IGV desktop into a run's folder: its reference, its genes, the calls of each sample and alignments, at the gravest place of the
// report. Files of the folder are named as they lie in it, so that the folder can be moved; all others from the root.
func WriteSession(dir string, of Session) error {
	r, err := readFolder(dir)
	if err != nil {
		return err
	}
	s := igvSession{Version: "8", Locus: locusOf(r.view(Options{}))}
	if s.Genome, err = sessionPath(dir, of.Reference); err != nil {
		return err
	}
	add := func(path, name string) error {
		path, err := sessionPath(dir, path)
		s.Resources = append(s.Resources, igvResource{path, name})
		return err
	}
	for _, path := range of.Genes {
		if err := add(path, "genes"); err != nil {
			return err
		}
	}
	for _, sample := range r.samples {
		s.Resources = append(s.Resources, igvResource{sample.vcf, sample.name})
	}
	for _, path := range of.Alignments {
		if err := add(path, filepath.Base(path)); err != nil {
			return err
		}
	}
	text, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing a session for IGV: %w", err)
	}
	return wholefile.Write(filepath.Join(dir, SessionName), func(w *bufio.Writer) error {
		_, err := fmt.Fprintf(w, "%s%s\n", xml.Header, text)
		return err
	})
}

// sessionPath is a file as the session of a folder names it.
func sessionPath(dir, path string) (string, error) {
	if path == "" {
		return "", errors.New("IGV needs the reference: --igv-ref FASTA")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("a file for IGV: %w", err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if base, err := filepath.Abs(dir); err == nil {
		if within, err := filepath.Rel(base, abs); err == nil && filepath.IsLocal(within) {
			return filepath.ToSlash(within), nil
		}
	}
	return abs, nil
}

// locusOf is the first place of a report: of a finding, else of a variant.
func locusOf(v *view) string {
	for i := range v.Samples {
		for _, f := range v.Samples[i].Findings {
			if f.Place != "" {
				return f.Place
			}
		}
	}
	for i := range v.Samples {
		for _, row := range v.Samples[i].Variants {
			return row.Place
		}
	}
	return "All"
}

// hasSession says whether a run's folder has a session for IGV.
func hasSession(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, SessionName))
	return err == nil && info.Mode().IsRegular()
}
