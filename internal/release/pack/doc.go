// Command pack makes of binaries what a release consists of: for each an archive with the binary, the
// licences of the modules in it and a few files beside, a bill of materials (CycloneDX 1.6, JSON), and for
// all of them one file of SHA-256 checksums. What it writes depends on its input alone: no time but the
// commit's, no user, no path, so that whoever builds the same commit with the same Go gets the same bytes.
//
//	go run ./internal/release/pack -version v1.2.3 -out DIR BINARY... -- FILE...
//
// internal/release/build builds the binaries and calls it.
package main
