package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// giveBackFiles returns the pages of files that are mapped: those of the program's own, two thirds of what it has
// resident once it has started, and those of the database that were read. What is used again is mapped again from the
// file, which is in memory as a rule: some hundred faults in all. It lets go of a mapping only if nothing in it can
// have been changed, since a changed page would come back as it is in the file; the linker changes some of the
// program's, and makes them read-only afterwards.
func giveBackFiles() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range unchanged(smaps, self) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// unchanged are the mappings that can only be read, and of which no page is this process's own: those of the program,
// and the shared ones of any file.
func unchanged(smaps []byte, program string) []mapping {
	var found []mapping
	mine := false
	for line := range bytes.Lines(smaps) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		if name, ok := strings.CutSuffix(fields[0], ":"); ok {
			// A changed page is anonymous, or swapped out. (Private_Dirty says nothing of it: a file that was only just
			// written has dirty pages, too.)
			if own := name == "Anonymous" || name == "Swap"; mine && own && fields[1] != "0" {
				found, mine = found[:len(found)-1], false
			}
			continue
		}
		m, ok := readMapping(fields, program)
		if mine = ok; ok {
			found = append(found, m)
		}
	}
	return found
}

// readMapping reads the first line of a mapping: addresses, what may be done, offset, device, inode, file.
func readMapping(fields []string, program string) (m mapping, ok bool) {
	if len(fields) < 6 || fields[4] == "0" {
		return m, false
	}
	switch fields[1] {
	case "r--s":
	case "r-xp", "r--p":
		if len(fields) > 6 || fields[5] != program {
			return m, false
		}
	default:
		return m, false
	}
	from, to, _ := strings.Cut(fields[0], "-")
	first, err1 := strconv.ParseUint(from, 16, 64)
	last, err2 := strconv.ParseUint(to, 16, 64)
	return mapping{uintptr(first), uintptr(last)}, err1 == nil && err2 == nil && first < last
}
