package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func identity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func written(t *testing.T, p Plan, text string, at time.Time) Backup {
	t.Helper()
	b, err := p.Write(t.Context(), strings.NewReader(text), at)
	if err := errors.Join(err, p.RemoveOld(at)); err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t *testing.T, path string, ids ...age.Identity) string {
	t.Helper()
	r, err := Open(t.Context(), path, ids...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	text := strings.Repeat("a page of a database ", 100_000)
	id, other := identity(t), identity(t)
	for name, p := range map[string]Plan{
		"countersign-20261124T120000Z.db.zst":     {Keep: 1},
		"countersign-20261124T120000Z.db.zst.age": {Keep: 1, Recipients: []age.Recipient{other.Recipient(), id.Recipient()}},
	} {
		p.Dir = t.TempDir()
		b := written(t, p, text, noon.Add(time.Millisecond))
		if want := filepath.Join(p.Dir, name); b.Path != want || !b.At.Equal(noon) || b.Bytes == 0 ||
			b.Bytes > int64(len(text)/10) {
			t.Errorf("%+v, want %s", b, want)
		}
		if got := names(t, p.Dir); !slices.Equal(got, []string{name, name + ".sha256"}) {
			t.Errorf("the folder has %q", got)
		}
		info, err := os.Stat(b.Path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		all, err := os.ReadFile(b.Path)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := os.ReadFile(b.Path + ".sha256")
		if want := fmt.Sprintf("%x  %s\n", sha256.Sum256(all), name); err != nil || string(sum) != want {
			t.Errorf("the sum is %q, %v, want %q", sum, err, want)
		}
		if got := read(t, b.Path, identity(t), id); got != text {
			t.Errorf("%s: %d bytes are read, of %d", name, len(got), len(text))
		}
		if listed, err := List(p.Dir); err != nil || !slices.Equal(listed, []Backup{b}) {
			t.Errorf("listed %+v, %v, want %+v", listed, err, b)
		}
	}
	plain := filepath.Join(t.TempDir(), "plain.db")
	if err := os.WriteFile(plain, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(t, plain); got != text {
		t.Errorf("a copy as it is: %d bytes are read", len(got))
	}
}

// What is encrypted shows nothing of the copy, and nobody else reads it.
func TestWhatIsEncryptedIsReadByItsRecipients(t *testing.T) {
	id := identity(t)
	p := Plan{Dir: t.TempDir(), Keep: 3, Recipients: []age.Recipient{id.Recipient()}}
	b := written(t, p, "SQLite format 3 and a secret", noon)
	all, err := os.ReadFile(b.Path)
	if err != nil || bytes.Contains(all, []byte("secret")) || bytes.Contains(all, []byte("\x28\xb5\x2f\xfd")) {
		t.Errorf("%q, %v", all, err)
	}
	for want, ids := range map[string][]age.Identity{
		"is encrypted: name the file with an identity": nil,
		"is encrypted for others":                      {identity(t)},
	} {
		if _, err := Open(t.Context(), b.Path, ids...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %d identities: %v, want %q", len(ids), err, want)
		}
	}
}

func TestADamagedCopyIsNotRead(t *testing.T) {
	id := identity(t)
	for _, recipients := range [][]age.Recipient{nil, {id.Recipient()}} {
		p := Plan{Dir: t.TempDir(), Keep: 3, Recipients: recipients}
		b := written(t, p, strings.Repeat("a page ", 10_000), noon)
		all, err := os.ReadFile(b.Path)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{len(all) / 2, len(all) - 1} {
			all[at] ^= 1
			if err := os.WriteFile(b.Path, all, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), b.Path, id); err == nil || !strings.Contains(err.Error(), "is damaged") {
				t.Errorf("byte %d of %d: %v", at, len(all), err)
			}
			alone := filepath.Join(t.TempDir(), "copy") // without its sum
			if err := os.WriteFile(alone, all, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Open(t.Context(), alone, id)
			if err == nil {
				_, err = io.ReadAll(r)
				err = errors.Join(err, r.Close())
			}
			if err == nil {
				t.Errorf("byte %d of %d is another, and nothing notices", at, len(all))
			}
			all[at] ^= 1
		}
	}
}

func TestTheNewestAreKept(t *testing.T) {
	p := Plan{Dir: t.TempDir(), Keep: 2}
	others := []string{"countersign-2026.db.zst", "countersign-20261124T120000Z.db", "notes.txt",
		"countersign-20261399T120000Z.db.zst", ".countersign-backup-new"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(p.Dir, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(p.Dir, ".countersign-backup-old")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, at := range map[string]time.Time{left: noon.Add(-25 * time.Hour),
		filepath.Join(p.Dir, ".countersign-backup-new"): noon} {
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		written(t, p, "text", noon.Add(time.Duration(i)*time.Hour))
	}
	want := append(others, "countersign-20261124T140000Z.db.zst", "countersign-20261124T140000Z.db.zst.sha256",
		"countersign-20261124T150000Z.db.zst", "countersign-20261124T150000Z.db.zst.sha256")
	slices.Sort(want)
	if got := names(t, p.Dir); !slices.Equal(got, want) {
		t.Errorf("the folder has %q, want %q", got, want)
	}
	_, err := p.Write(t.Context(), strings.NewReader(""), noon.Add(3*time.Hour))
	if err == nil || !strings.Contains(err.Error(), "made in the same second: try again") {
		t.Errorf("a second one in a second: %v", err)
	}
	// As with a clock that was a year ahead: what it has made does not count, and takes nothing away.
	for i := range 3 {
		written(t, p, "now", noon.Add(time.Duration(i)*time.Hour-365*24*time.Hour))
	}
	now := noon.Add(-364 * 24 * time.Hour)
	all, err := List(p.Dir)
	if err != nil || len(all) != 4 || len(DropLater(all, now)) != 2 || !DropLater(all, now)[0].At.Equal(noon.Add(
		2*time.Hour-365*24*time.Hour)) {
		t.Errorf("kept: %+v, %v", all, err)
	}
}

func TestOneIsDueInEachStretch(t *testing.T) {
	p := Plan{Every: 24 * time.Hour}
	at := func(d time.Duration) Backup { return Backup{At: noon.Add(d)} }
	for _, test := range []struct {
		all  []Backup
		now  time.Duration
		want bool
	}{
		{nil, 0, true},
		{[]Backup{at(0)}, 0, false},
		{[]Backup{at(0)}, 12*time.Hour - 1, false},
		{[]Backup{at(0)}, 12 * time.Hour, true},
		{[]Backup{at(-12 * time.Hour)}, 0, false},
		{[]Backup{at(-12*time.Hour - 1)}, 0, true},
		{[]Backup{at(1000 * time.Hour)}, 0, true},
		{[]Backup{at(1000 * time.Hour), at(0)}, time.Hour, false},
	} {
		if got := p.IsDue(test.all, noon.Add(test.now)); got != test.want {
			t.Errorf("%v at %s: due %v", test.all, test.now, got)
		}
	}
}

// What cannot be written leaves nothing, and takes nothing away.
func TestWhatCannotBeWrittenLeavesNothing(t *testing.T) {
	p := Plan{Dir: t.TempDir(), Keep: 1}
	kept := written(t, p, "kept", noon)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		from io.Reader
	}{
		"cannot be read": {t.Context(), iotest.ErrReader(errors.New("the disk is broken"))},
		"given up":       {ended, strings.NewReader("text")},
	} {
		if _, err := p.Write(test.ctx, test.from, noon.Add(time.Hour)); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	want := filepath.Base(kept.Path)
	if got := names(t, p.Dir); !slices.Equal(got, []string{want, want + ".sha256"}) {
		t.Errorf("the folder has %q", got)
	}
	p.Dir = filepath.Join(p.Dir, "none")
	if _, err := p.Write(t.Context(), strings.NewReader(""), noon); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	if _, err := List(p.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there is listed: %v", err)
	}
}

// A copy is read as zstd and age themselves write it.
func TestOthersCopiesAreRead(t *testing.T) {
	packed := new(bytes.Buffer)
	z, err := zstd.NewWriter(packed, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	id := identity(t)
	sealed := new(bytes.Buffer)
	w, err := age.Encrypt(sealed, id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"compressed": packed.Bytes(), "encrypted": sealed.Bytes()} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path, id); got != "text" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The sum may be written in any of the ways in which programs write it.
func TestTheSumIsReadAsProgramsWriteIt(t *testing.T) {
	p := Plan{Dir: t.TempDir(), Keep: 1}
	b := written(t, p, "text", noon)
	line, err := os.ReadFile(b.Path + sumSuffix)
	if err != nil {
		t.Fatal(err)
	}
	sum, _, _ := strings.Cut(string(line), " ")
	for said, want := range map[string]string{
		sum: "", sum + "\r\n": "", strings.ToUpper(sum) + " *name\r\n": "", "SHA256 (name) = " + sum + "\n": "",
		"": "holds no SHA-256", "abc": "holds no SHA-256", strings.Repeat("0", 64): "is damaged",
	} {
		if err := os.WriteFile(b.Path+sumSuffix, []byte(said), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(t.Context(), b.Path)
		if err == nil {
			err = r.Close()
		}
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%q: %v, want %q", said, err, want)
		}
	}
}
