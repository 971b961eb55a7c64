package vcf

import "strings"

// Declaration is what a header says about an INFO field.
type Declaration struct {
	ID, Number, Type, Description string
}

// Infos are the INFO declarations in the order of the header.
func (h *Header) Infos() []Declaration {
	var list []Declaration
	for _, m := range h.Meta {
		if strings.HasPrefix(m, "##INFO=<") {
			list = append(list, Declaration{attribute(m, "ID"), attribute(m, "Number"), attribute(m, "Type"), attribute(m, "Description")})
		}
	}
	return list
}
