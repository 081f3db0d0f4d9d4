package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnlyUnchangedMappingsAreGivenBack(t *testing.T) {
	const smaps = `00400000-00500000 r-xp 00000000 fe:00 11 /usr/bin/countersign
Rss:                 100 kB
Private_Dirty:        96 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
00500000-00600000 r--p 00100000 fe:00 11 /usr/bin/countersign
Rss:                 100 kB
Anonymous:             4 kB
00600000-00700000 r--p 00200000 fe:00 11 /usr/bin/countersign
Anonymous:             0 kB
Swap:                  8 kB
00700000-00800000 rw-p 00300000 fe:00 11 /usr/bin/countersign
Anonymous:             0 kB
00800000-00900000 r--p 00000000 fe:00 12 /lib/libc.so.6
Anonymous:             0 kB
00900000-00a00000 r--p 00000000 00:00 0
Anonymous:             0 kB
00a00000-00b00000 r--p 00400000 fe:00 11 /usr/bin/countersign
Anonymous:             0 kB
00b00000-00c00000 r--p 00400000 fe:00 11 /usr/bin/countersign (deleted)
Anonymous:             0 kB
00c00000-00d00000 r--s 00000000 fe:00 21 /var/lib/a gate/countersign.db
Anonymous:             0 kB
00d00000-00e00000 rw-s 00000000 fe:00 22 /var/lib/a gate/countersign.db-shm
Anonymous:             0 kB
00e00000-00f00000 r--s 00000000 00:00 0
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x500000}, {0xa00000, 0xb00000}, {0xc00000, 0xd00000}}
	if got := unchanged([]byte(smaps), "/usr/bin/countersign"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func TestWhatIsGivenBackIsThereWhenItIsUsed(t *testing.T) {
	before := residentOfFiles(t)
	giveBackFiles()
	after := residentOfFiles(t)
	if after >= before {
		t.Errorf("%d KiB of files before, %d after", before, after)
	}
	var out strings.Builder
	none := func(string) (string, bool) { return "", false }
	if code := run(t.Context(), []string{"help"}, nil, &out, &out, none); code != exitDone || out.Len() == 0 {
		t.Errorf("exit code %d, %q", code, out.String())
	}
}

// residentOfFiles is what this process has of files in memory, in KiB.
func residentOfFiles(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The readers have the database mapped like this, while the writer writes to the file.
func TestASharedMappingIsGivenBackAndShowsTheFileAsItIs(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "countersign.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(bytes.Repeat([]byte("old "), 64<<10)); err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, 256<<10, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	if n := bytes.Count(mapped, []byte("old ")); n != 64<<10 {
		t.Fatalf("%d of what was written", n)
	}
	if before := residentOf(t, f.Name()); before < 256 {
		t.Fatalf("%d KiB resident before", before)
	}
	if _, err := f.WriteAt([]byte("new "), 128<<10); err != nil {
		t.Fatal(err)
	}
	giveBackFiles()
	if after := residentOf(t, f.Name()); after != 0 {
		t.Errorf("%d KiB resident after", after)
	}
	if !bytes.HasPrefix(mapped[128<<10:], []byte("new old ")) || bytes.Count(mapped, []byte("old ")) != 64<<10-1 {
		t.Errorf("it is not what the file has")
	}
}

// residentOf is what this process has of one file in memory, in KiB.
func residentOf(t *testing.T, path string) int {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(smaps), " "+path+"\n")
	_, rest, _ = strings.Cut(rest, "\nRss:")
	n, err := strconv.Atoi(strings.Fields(rest + " -")[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
