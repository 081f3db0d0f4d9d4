// Package backup keeps copies of a store's file in a folder: compressed, and encrypted where that is wanted, each with
// its SHA-256, and the newest of them. It reads them again, too. Which copies there are, and of when, their names say:
// nothing else is kept of it.
package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"countersign/internal/safefile"
)

// Plan says where copies are kept, how often one is made, and how many there are.
type Plan struct {
	Dir        string // "": none are made
	Every      time.Duration
	Keep       int
	Recipients []age.Recipient // who alone can read them; none: whoever can read the files
}

// IsSet reports whether copies are made.
func (p *Plan) IsSet() bool { return p.Dir != "" }

// Backup is a copy in the folder.
type Backup struct {
	Path  string    `json:"backup"`
	At    time.Time `json:"at"`    // when it was made
	Bytes int64     `json:"bytes"` // that it takes
}

const (
	sumSuffix  = ".sha256"
	nameTime   = "20060102T150405Z"
	partPrefix = ".countersign-backup-"
	// partAge is how old what is being written must be for what wrote it to have ended: no backup takes a day.
	partAge = 24 * time.Hour
)

// named is the name of a copy, which says of when it is.
var named = regexp.MustCompile(`^countersign-(\d{8}T\d{6}Z)\.db\.zst(\.age)?$`)

// List returns the copies in a folder, the newest first.
func List(dir string) ([]Backup, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Backup
	for _, e := range entries {
		m := named.FindStringSubmatch(e.Name())
		if m == nil || !e.Type().IsRegular() {
			continue
		}
		at, err := time.Parse(nameTime, m[1])
		if err != nil {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Backup{filepath.Join(dir, e.Name()), at, info.Size()})
	}
	slices.SortFunc(all, func(a, b Backup) int { return b.At.Compare(a.At) })
	return all, nil
}

// DropLater returns the copies that are not later than a time, of a list whose newest come first.
func DropLater(all []Backup, now time.Time) []Backup {
	for i, b := range all {
		if !b.At.After(now) {
			return all[i:]
		}
	}
	return nil
}

// IsDue reports whether a copy is to be made now, beside those that there are: one in each stretch of the plan's
// length, counted in UTC. One of later, by a clock that was wrong, hinders none.
func (p *Plan) IsDue(all []Backup, now time.Time) bool {
	return !slices.ContainsFunc(all, func(b Backup) bool {
		return b.At.Truncate(p.Every).Equal(now.Truncate(p.Every))
	})
}

// Write keeps what it reads as the copy of a moment. The copy is there under its name when it is on the disk, or not at
// all.
func (p *Plan) Write(ctx context.Context, from io.Reader, at time.Time) (b Backup, err error) {
	if err := removeParts(p.Dir, at); err != nil {
		return b, err
	}
	f, err := os.CreateTemp(p.Dir, partPrefix+"*")
	if err != nil {
		return b, err
	}
	defer func() {
		if err == nil {
			return
		}
		if left := os.Remove(f.Name()); !errors.Is(left, fs.ErrNotExist) { // it has got its name
			err = errors.Join(err, left)
		}
	}()
	sum := sha256.New()
	err = p.pack(io.MultiWriter(f, sum), contextReader{ctx, from})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return b, err
	}
	name := "countersign-" + at.UTC().Format(nameTime) + ".db.zst"
	if len(p.Recipients) > 0 {
		name += ".age"
	}
	b = Backup{Path: filepath.Join(p.Dir, name), At: at.UTC().Truncate(time.Second)}
	if err := safefile.Name(f.Name(), b.Path); errors.Is(err, fs.ErrExist) {
		return b, fmt.Errorf("there is %s already, made in the same second: try again", name)
	} else if err != nil {
		return b, err
	}
	// As sha256sum writes and checks it. It syncs the folder, too.
	line := fmt.Appendf(nil, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), name)
	if err := safefile.Write(b.Path+sumSuffix, line, 0o600); err != nil {
		return b, err
	}
	info, err := os.Stat(b.Path)
	if err != nil {
		return b, err
	}
	b.Bytes = info.Size()
	return b, nil
}

// pack compresses and encrypts. One thread and a window of a megabyte are enough: the gate answers callers meanwhile.
func (p *Plan) pack(to io.Writer, from io.Reader) (err error) {
	var done []io.Closer
	if len(p.Recipients) > 0 {
		sealed, err := age.Encrypt(to, p.Recipients...)
		if err != nil {
			return err
		}
		to, done = sealed, append(done, sealed)
	}
	z, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(true))
	if err != nil {
		return err
	}
	if _, err := io.Copy(z, from); err != nil {
		_ = z.Close() // fails for the same reason
		return err
	}
	for _, c := range append([]io.Closer{z}, done...) {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

// RemoveOld removes the oldest copies where there are more than the plan keeps. Those that are later than now, by a
// clock that was wrong, do not count and stay.
func (p *Plan) RemoveOld(now time.Time) error {
	all, err := List(p.Dir)
	if err != nil {
		return err
	}
	all = DropLater(all, now)
	for _, b := range all[min(len(all), p.Keep):] {
		for _, path := range []string{b.Path, b.Path + sumSuffix} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("an old backup cannot be removed: %w", err)
			}
		}
	}
	return nil
}

// removeParts removes what processes left in a folder that ended while they wrote.
func removeParts(dir string, now time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), partPrefix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < partAge {
			continue // gone meanwhile, or being written
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// contextReader gives up when its context ends.
type contextReader struct {
	ctx  context.Context
	from io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

// Open opens a copy to be read: the database's file that was copied. It may be compressed and encrypted, or neither. It
// fails where the copy does not have the SHA-256 that lies beside it, and where it is encrypted for others than these.
// It is read while ctx lives.
func Open(ctx context.Context, path string, identities ...age.Identity) (_ io.ReadCloser, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := checkSum(ctx, f); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(contextReader{ctx, f}, 1<<16)
	if begins(r, "age-encryption.org/") {
		if len(identities) == 0 {
			return nil, fmt.Errorf("%s is encrypted: name the file with an identity that can read it", path)
		}
		open, err := age.Decrypt(r, identities...)
		if _, wrong := errors.AsType[*age.NoIdentityMatchError](err); wrong {
			return nil, fmt.Errorf("%s is encrypted for others: none of the identities can read it", path)
		}
		if err != nil {
			return nil, fmt.Errorf("%s cannot be decrypted: %w", path, err)
		}
		r = bufio.NewReaderSize(open, 1<<16)
	}
	if !begins(r, "\x28\xb5\x2f\xfd") {
		return reader{r, f.Close}, nil
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<40),
		zstd.WithDecoderMaxWindow(1<<27))
	if err != nil {
		return nil, err
	}
	return reader{z, func() error { z.Close(); return f.Close() }}, nil
}

// reader is what a copy says, and how it is closed.
type reader struct {
	io.Reader
	close func() error
}

func (r reader) Close() error { return r.close() }

func begins(r *bufio.Reader, with string) bool {
	head, err := r.Peek(len(with))
	return err == nil && bytes.Equal(head, []byte(with))
}

// sha256Hex is a SHA-256 in a line, however the program writes it that made it.
var sha256Hex = regexp.MustCompile(`\b[0-9A-Fa-f]{64}\b`)

// checkSum fails where a copy does not have the SHA-256 that lies beside it, if one does.
func checkSum(ctx context.Context, f *os.File) error {
	line, err := os.ReadFile(f.Name() + sumSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, contextReader{ctx, f}); err != nil {
		return err
	}
	want := sha256Hex.FindString(string(line))
	if want == "" {
		return fmt.Errorf("%s holds no SHA-256; move it away to go on without", f.Name()+sumSuffix)
	}
	if !strings.EqualFold(hex.EncodeToString(sum.Sum(nil)), want) {
		return fmt.Errorf("%s is damaged: it does not have the SHA-256 that %s says", f.Name(),
			filepath.Base(f.Name())+sumSuffix)
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}
