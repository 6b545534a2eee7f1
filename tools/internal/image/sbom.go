// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// SBOM lists what is in a program, as the compiler recorded it, in the JSON form of CycloneDX 1.6: the modules with their versions and
// checksums, and the Go standard library. The same program, version and time make the same list.
func SBOM(program []byte, version string, created time.Time) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("reading what is in the program: %w", err)
	}
	sum := sha256.Sum256(program)
	main := cdx.Component{
		BOMRef: purl(info.Main.Path, version), Type: cdx.ComponentTypeApplication, Name: "tombolo", Version: version,
		PackageURL: purl(info.Main.Path, version),
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Properties: settings(info),
	}
	goVersion := info.GoVersion[len("go"):]
	parts := []cdx.Component{{
		BOMRef: purl("std", goVersion), Type: cdx.ComponentTypeLibrary, Name: "std", Version: goVersion, PackageURL: purl("std", goVersion),
	}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, cdx.Component{
			BOMRef: purl(m.Path, m.Version), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl(m.Path, m.Version),
			Properties: &[]cdx.Property{{Name: "go.sum", Value: m.Sum}},
		})
	}
	refs := make([]string, len(parts))
	for i, p := range parts {
		refs[i] = p.BOMRef
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: created.UTC().Format(time.RFC3339), Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("writing the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// purl names a module.
func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }

// settings are how the program was built.
func settings(info *debug.BuildInfo) *[]cdx.Property {
	var out []cdx.Property
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "GOAMD64", "GOARM64", "CGO_ENABLED", "-ldflags", "-trimpath":
			out = append(out, cdx.Property{Name: "go.build." + s.Key, Value: s.Value})
		}
	}
	return &out
}
