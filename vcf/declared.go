package vcf

import "strings"

// Declared is the Type that the header declares for a field, and whether it does; kind is INFO or FORMAT.
func (h *Header) Declared(kind, id string) (typ string, ok bool) {
	prefix := "##" + kind + "=<"
	for _, m := range h.Meta {
		if strings.HasPrefix(m, prefix) && attribute(m, "ID") == id {
			return attribute(m, "Type"), true
		}
	}
	return "", false
}
