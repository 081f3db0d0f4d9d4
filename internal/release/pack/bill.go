package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
)

// The parts of CycloneDX 1.6 that a bill has, under the names of its specification.
type (
	bom struct {
		Schema       string       `json:"$schema"`
		BOMFormat    string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		SerialNumber string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Ref        string     `json:"bom-ref"`
		Type       string     `json:"type"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		Hashes     []hash     `json:"hashes,omitempty"`
		PURL       string     `json:"purl,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// bill says what is linked into the binary: its modules, and the standard library.
func (b *binary) bill(version string) ([]byte, error) {
	sum := sha256.Sum256(b.data)
	self := component{Ref: "countersign", Type: "application", Name: "countersign", Version: version,
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}},
		Properties: []property{{"countersign:goos", b.os}, {"countersign:goarch", b.arch},
			{"countersign:revision", b.revision}}}
	doc := bom{Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", BOMFormat: "CycloneDX", SpecVersion: "1.6",
		SerialNumber: serial(sum), Version: 1, Metadata: metadata{b.at.Format(time.RFC3339), self}}
	goVersion, _, _ := strings.Cut(strings.TrimPrefix(b.info.GoVersion, "go"), " ")
	std := "pkg:golang/std@" + goVersion
	doc.Components = []component{{Ref: std, Type: "library", Name: "std", Version: goVersion, PURL: std}}
	for _, m := range b.modules() {
		c, err := library(m)
		if err != nil {
			return nil, err
		}
		doc.Components = append(doc.Components, c)
	}
	var all []string
	for _, c := range doc.Components {
		all = append(all, c.Ref)
	}
	doc.Dependencies = []dependency{{self.Ref, all}}
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(doc)
	return buf.Bytes(), err
}

// modules are those that the binary has code of, as they were built: a replacement in place of what it replaces.
func (b *binary) modules() []*debug.Module {
	var all []*debug.Module
	for _, m := range b.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, m)
	}
	return all
}

// library describes a module. Its hash is that of go.sum (h1), which is over the list of the module's files.
func library(m *debug.Module) (component, error) {
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return component{}, fmt.Errorf("module %s %s has no checksum: a folder took its place", m.Path, m.Version)
	}
	purl := "pkg:golang/" + m.Path + "@" + url.PathEscape(m.Version)
	return component{Ref: purl, Type: "library", Name: m.Path, Version: m.Version, PURL: purl,
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum)}}}, nil
}

// serial is a UUID (version 8, of RFC 9562) that the binary's checksum makes, where others take a random one.
func serial(sum [sha256.Size]byte) string {
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
