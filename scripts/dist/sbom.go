package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM makes the bill of materials in CycloneDX 1.6: the programs, what is linked
// into each or works for it, with versions, licences and hashes.
func writeSBOM(src source, t target, parts []part) ([]byte, error) {
	root := cdx.Component{
		BOMRef: "porestream", Type: cdx.ComponentTypeApplication, Name: "porestream", Version: src.version, Licenses: licences([]string{"Apache-2.0"}),
		Properties: &[]cdx.Property{{Name: "porestream:commit", Value: src.commit}, {Name: "porestream:platform", Value: "linux/" + t.goarch}},
	}
	components := []cdx.Component{}
	depends := map[string][]string{"porestream": {}}
	for _, program := range programs {
		ref := "program:" + program
		components = append(components, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: program, Version: src.version, Licenses: licences([]string{"Apache-2.0"}),
		})
		depends["porestream"] = append(depends["porestream"], ref)
		depends[ref] = []string{}
	}
	for _, p := range parts {
		c := cdx.Component{
			BOMRef: p.ref(), Type: p.component(), Name: p.name, Version: p.version, PackageURL: p.purl, Licenses: licences(p.spdx), Description: p.about,
		}
		if p.sha256 != "" {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.sha256}}
			c.Properties = &[]cdx.Property{{Name: "porestream:hash-of", Value: p.hashOf}}
		}
		components = append(components, c)
		depends[p.ref()] = []string{}
		for _, program := range programs {
			if len(p.users) == 0 || slices.Contains(p.users, program) {
				depends["program:"+program] = append(depends["program:"+program], p.ref())
			}
		}
	}
	var dependencies []cdx.Dependency
	for _, c := range append([]cdx.Component{root}, components...) {
		on := depends[c.BOMRef]
		dependencies = append(dependencies, cdx.Dependency{Ref: c.BOMRef, Dependencies: &on})
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = serial(src, t)
	bom.Metadata = &cdx.Metadata{Timestamp: src.time.Format(time.RFC3339), Component: &root}
	bom.Components, bom.Dependencies = &components, &dependencies
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("writing the bill of materials: %w", err)
	}
	return b.Bytes(), nil
}

// ref is what a part is called within the bill.
func (p part) ref() string {
	if p.purl != "" {
		return p.purl
	}
	return p.folder()
}

func (p part) component() cdx.ComponentType {
	switch p.kind {
	case model:
		return cdx.ComponentTypeMachineLearningModel
	case data:
		return cdx.ComponentTypeData
	}
	return cdx.ComponentTypeLibrary
}

// licences is one identifier, or an expression for several.
func licences(spdx []string) *cdx.Licenses {
	if len(spdx) == 1 && !strings.HasPrefix(spdx[0], "LicenseRef-") {
		return &cdx.Licenses{{License: &cdx.License{ID: spdx[0]}}}
	}
	return &cdx.Licenses{{Expression: strings.Join(spdx, " AND ")}}
}

// serial is a UUID (version 8) that the commit and the platform determine.
func serial(src source, t target) string {
	h := sha256.Sum256([]byte("porestream " + src.version + " " + src.commit + " " + t.goarch))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
