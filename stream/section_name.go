package stream

import (
	"crypto/sha256"
	"encoding/hex"
)

// SectionName names a section of a stage's state: kind, as "region/", and what distinguishes it from others of that kind. Such
// names are for people too; one of more than most bytes has a hash of the whole in place of name.
func SectionName(kind, name string, most int) string {
	if len(kind)+len(name) <= most {
		return kind + name
	}
	sum := sha256.Sum256([]byte(kind + name))
	return kind + "~" + hex.EncodeToString(sum[:])
}
