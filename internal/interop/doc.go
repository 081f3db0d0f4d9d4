// Package interop holds the gate against other people's programs: the conformance suite of the protocol, the
// Inspector's command line, the servers that everybody tries first, and clients and servers made with the
// reference SDK, and coding agents as they were released, which a scripted model drives. The program is built and
// started as users start it, and all that is known of it comes over its front doors.
//
// Its tests and benchmarks are behind the build tag interop, so that `go test ./...` needs no Node. The tests want
// those programs in the folder that COUNTERSIGN_INTEROP names, and fail without it rather than skip;
// CONTRIBUTING.md says how to put them there. They download nothing. The benchmarks need nothing but Go.
package interop
