package page_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/monitor/page/pagetest"
	"github.com/porestream/porestream/monitor/page/pagetest/browser"
)

// TestPageIsAccessible lets axe-core check the page in all its states: it must find no violation.
func TestPageIsAccessible(t *testing.T) {
	path := os.Getenv("PORESTREAM_AXE")
	if path == "" {
		t.Skip("PORESTREAM_AXE does not name axe.min.js of axe-core (npm install axe-core; .ci/run does it)")
	}
	axe, err := os.ReadFile(path)
	require.NoError(t, err)
	dark := browser.Screen{Width: 1500, Height: 1000, Dark: true, Still: true}
	const (
		full    = rows + `.length > 3`
		dialog  = `document.getElementById("detail").open && !document.getElementById("pileup-body").hidden`
		first   = `document.querySelector(".grid-body .grid-row").click()`
		plate   = `document.querySelectorAll("#plate-table tbody td").length === 96 * 60`
		genes   = `document.querySelectorAll("#genes-table tbody td").length === 96 * 13`
		trouble = `document.getElementById("problems").children.length === 3`
	)
	for _, tt := range []struct {
		name   string
		scene  func() pagetest.Scene
		screen browser.Screen
		do     string // after ready
		ready  string
		done   string
	}{
		{"light", pagetest.Lambda, desk, "", full, ""},
		{"dark", pagetest.Lambda, dark, "", full, ""},
		{"phone", pagetest.Lambda, phone, "", full, ""},
		{"nothing yet", pagetest.Empty, desk, "", `document.getElementById("health-word").textContent === "Waiting"`, ""},
		{"trouble, light", pagetest.Troubled, desk, "", trouble, ""},
		{"trouble, dark", pagetest.Troubled, dark, "", trouble, ""},
		{"filters set", pagetest.Lambda, desk, `document.querySelector('#filter-impact [value="HIGH"]').click(); document.querySelector(".legend-entry").click()`, full, rows + `.length === 3`},
		{"variant, light", pagetest.Lambda, desk, first, full, dialog},
		{"variant, dark", pagetest.Lambda, dark, first, full, dialog},
		{"variant, phone", pagetest.Lambda, phone, first, full, dialog},
		{"plate, light", plateOf, desk, "", plate, ""},
		{"plate, dark", plateOf, dark, "", plate, ""},
		{"plate, phone", plateOf, phone, `document.querySelector("#plate-table tbody td").click()`, plate, `document.getElementById("plate-readout").textContent.startsWith("barcode01, ")`},
		{"genes, light", genesOf, desk, "", genes, ""},
		{"genes, dark", genesOf, dark, "", genes, ""},
		{"genes, phone", genesOf, phone, `document.querySelector("#genes-table tbody td").click()`, genes, `document.getElementById("genes-readout").textContent.startsWith("barcode01, CYP2B6: final, *1/*2")`},
		{"modified bases, light", pagetest.Methylated, desk, "", drawn, ""},
		{"modified bases, dark", pagetest.Methylated, dark, "", drawn, ""},
		{"modified bases, phone", pagetest.Methylated, phone, "", drawn, ""},
		{"modified bases by haplotype, light", pagetest.Imprinted, desk, haplotype(2), drawn, `document.getElementById("methylation-canvas").ariaLabel.startsWith("5mC of haplotype 2") && ` + drawn},
		{"modified bases by haplotype, phone", pagetest.Imprinted, phone, haplotype(1), drawn, `document.getElementById("methylation-canvas").ariaLabel.startsWith("5mC of haplotype 1") && ` + drawn},
		{"haplotypes, light", pagetest.Phased, desk, first, full, dialog + ` && document.querySelectorAll("#haplotype-sites tbody tr").length === 20`},
		{"haplotypes, phone", pagetest.Phased, phone, first, full, dialog + ` && document.querySelectorAll("#haplotype-sites tbody tr").length === 20`},
		{"help", pagetest.Lambda, dark, `document.getElementById("help").click()`, full, `document.getElementById("help-dialog").open`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tab := visit(t, serve(t, tt.scene()), tt.screen)
			wait(t, tab, tt.ready)
			if tt.do != "" {
				ask[bool](t, tab, `(() => { `+tt.do+`; return true; })()`)
				wait(t, tab, tt.done)
			}
			audit(t, tab, string(axe))
		})
	}
	t.Run("no connection", func(t *testing.T) {
		s := serve(t, pagetest.Lambda())
		tab := visit(t, s, desk)
		wait(t, tab, full)
		s.stop()
		wait(t, tab, `document.body.dataset.old === "true"`)
		audit(t, tab, string(axe))
	})
}

// plateOf is a plate of 96 barcodes and 60 markers.
func plateOf() pagetest.Scene { return pagetest.Plate(96, 60) }

// genesOf is a plate of 96 barcodes and 13 genes.
func genesOf() pagetest.Scene { return pagetest.Genes(96, 13) }

// audit runs axe-core in the tab. It is put there past the policy, as developer tools are.
func audit(t *testing.T, tab *browser.Tab, axe string) {
	t.Helper()
	_, err := browser.Ask[bool](tab, axe+"\n; true")
	require.NoError(t, err)
	type violation struct {
		Rule, Impact, Help string
		Where              []string
	}
	found := ask[[]violation](t, tab, `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"] }).then((r) =>
		r.violations.map((v) => ({ Rule: v.id, Impact: v.impact, Help: v.help, Where: v.nodes.map((n) => n.target.join(" ") + ": " + n.failureSummary.replaceAll("\n", " ")).slice(0, 5) })))`)
	for _, v := range found {
		assert.Fail(t, "axe-core", "%s (%s): %s\n  %q", v.Rule, v.Impact, v.Help, v.Where)
	}
}
