package signal

import "strings"

// Chemistry returns the pore and motor that the run was made with, by the flow
// cell's product code and, where that is unknown, by the kit: "r9.4", "r10.3",
// "r10.4", "r10.4.1", "rna002" or "rna004". It is empty when the file names neither
// or they are not known here. A model serves one chemistry at one sample rate.
func (r *Run) Chemistry() string {
	product, kit := strings.ToUpper(r.FlowCellProduct), strings.ToUpper(r.Kit)
	cell := flowCellChemistry(product)
	switch {
	// RNA002 is a kit for R9.4 flow cells; RNA004 has flow cells of its own.
	case strings.Contains(kit, "RNA002") && (cell == "" || cell == "r9.4"):
		return "rna002"
	case cell != "":
		return cell
	}
	return kitChemistry(kit)
}

// flowCellChemistry knows ONT's product codes: FLO-, the device (MIN, FLG, PRO,
// MINSP), a number for the pore, and suffixes that don't change it.
func flowCellChemistry(product string) string {
	code, ok := strings.CutPrefix(product, "FLO-")
	if !ok {
		return ""
	}
	for _, device := range []string{"MINSP", "MIN", "FLG", "PRO"} {
		if number, ok := strings.CutPrefix(code, device); ok {
			for _, p := range []struct{ prefix, chemistry string }{
				{"004RA", "rna004"},
				{"114", "r10.4.1"},
				{"112", "r10.4"},
				{"110", "r10.3"}, {"111", "r10.3"},
				{"106", "r9.4"}, {"107", "r9.4"}, {"001", "r9.4"}, {"002", "r9.4"}, {"6", "r9.4"},
			} {
				if strings.HasPrefix(number, p.prefix) {
					return p.chemistry
				}
			}
			return ""
		}
	}
	return ""
}

// kitChemistry goes by the number in a kit's name, which stands for the chemistry
// it was made for: SQK-LSK109, SQK-NBD114-96.
func kitChemistry(kit string) string {
	kit = strings.ReplaceAll(kit, "_", "-")
	part := strings.Split(kit, "-")
	if len(part) < 2 || (part[0] != "SQK" && part[0] != "VSK" && part[0] != "EXP") {
		return ""
	}
	if part[1] == "RNA004" || part[1] == "DRB004" { // barcodes for direct RNA
		return "rna004"
	}
	name := part[1]
	for _, n := range []struct{ suffix, chemistry string }{
		{"114", "r10.4.1"},
		{"112", "r10.4"},
		{"108", "r9.4"}, {"109", "r9.4"}, {"110", "r9.4"}, {"111", "r9.4"}, {"004", "r9.4"},
	} {
		if strings.HasSuffix(name, n.suffix) {
			return n.chemistry
		}
	}
	return ""
}
