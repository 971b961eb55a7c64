package annotate

import (
	"strings"
	"testing"
)

// TestIndexedAttributes: the set of a row's keys changes no answer, only how soon it is there.
func TestIndexedAttributes(t *testing.T) {
	keys := strings.Fields("ID Parent Name biotype gene_id transcript_id tag tags exception pseudo partial a b ab ba")
	for _, text := range []string{
		"", ";", "ID=x", "ID=x;Parent=y,z;tag=basic,MANE Select", "ID=;Parent", " ID=x; Name=y ;", "=x", "a=1;b=2;ab=3;a=4",
		`gene_id "g"; transcript_id "t"; tag "basic"; tag "seleno";`, `gene_id g; transcript_id t`, `tag "a;b"; ba 'x'`,
	} {
		plain := attributes{text: []byte(text), gtf: isGTF([]byte(text))}
		indexed := plain.indexed()
		for _, key := range keys {
			if got, want := string(indexed.raw(key)), string(plain.raw(key)); got != want {
				t.Errorf("%q: %s is %q, want %q", text, key, got, want)
			}
			if got, want := strings.Join(indexed.list(key), "\n"), strings.Join(plain.list(key), "\n"); got != want {
				t.Errorf("%q: list of %s is %q, want %q", text, key, got, want)
			}
			if indexed.lacks(key) && plain.raw(key) != nil {
				t.Errorf("%q: it is said to have no %s", text, key)
			}
		}
	}
}
