// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func TestBillOfMaterialsNamesEveryModule(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("go", "build", "-o", file, "../../cmd/image").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	created := time.Unix(1700000000, 0)
	data, err := SBOM(program, "v1.2.3", created)
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(data), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; c.Name != "tombolo" || c.Version != "v1.2.3" || bom.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("it is of %s %s of %s", c.Name, c.Version, bom.Metadata.Timestamp)
	}
	found := map[string]bool{}
	for _, c := range *bom.Components {
		if !strings.HasPrefix(c.PackageURL, "pkg:golang/"+c.Name+"@") || c.Version == "" {
			t.Errorf("component %+v", c)
		}
		found[c.Name] = true
	}
	for _, name := range []string{"std", "github.com/google/go-containerregistry", "github.com/CycloneDX/cyclonedx-go"} {
		if !found[name] {
			t.Errorf("%s is missing in %v", name, found)
		}
	}
	again, err := SBOM(program, "v1.2.3", created)
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("a second list of the same program differs (%v)", err)
	}
}

func TestBillOfMaterialsOfWhatIsNoGoProgramIsAnError(t *testing.T) {
	if _, err := SBOM([]byte("program"), "v1.2.3", time.Unix(0, 0)); err == nil {
		t.Error("it was made")
	}
}
