package stream

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// The golden records are what version 1 of the format is: they may be added to,
// never rewritten. -update writes those that are missing.
var update = flag.Bool("update", false, "write golden records that don't exist yet")

func TestGoldenRecords(t *testing.T) {
	for _, r := range sampleRecords() {
		t.Run(r.name, func(t *testing.T) {
			path := filepath.Join("testdata", "golden", r.name+".v1.hex")
			encoded := mustEncode(t, r)
			text, err := os.ReadFile(path)
			if os.IsNotExist(err) && *update {
				text = []byte(hexLines(encoded))
				err = os.WriteFile(path, text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			golden, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.codec.decode(golden)
			if err != nil {
				t.Fatalf("the golden record is no longer read: %v", err)
			}
			if !proto.Equal(got, r.msg) {
				t.Errorf("the golden record reads as %v, want %v", got, r.msg)
			}
			if topic := NewTopics("lab.").OfEnvelope(golden); topic != "lab."+strings.SplitN(r.name, "-", 2)[0] {
				t.Errorf("it is said to be of topic %q", topic)
			}
			golden[len(golden)-1]++
			if topic := NewTopics("lab.").OfEnvelope(golden); topic != "" {
				t.Errorf("damaged it is said to be of topic %q", topic)
			}
			golden[len(golden)-1]--
			if string(encoded) != string(golden) {
				t.Errorf("other bytes are written for it:\n%swant\n%s", hexLines(encoded), text)
			}
		})
	}
}

func hexLines(b []byte) string {
	var s strings.Builder
	for len(b) > 0 {
		n := min(32, len(b))
		s.WriteString(hex.EncodeToString(b[:n]) + "\n")
		b = b[n:]
	}
	return s.String()
}
