package powercut

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Disk sees what SQLite syncs: what it has not synced is gone when the power is.
type Disk struct {
	mu     sync.Mutex
	names  map[uintptr]string // of open files
	synced map[string][]byte  // what of each is safe

	fails  atomic.Bool
	stalls atomic.Int64 // for how long
}

// Where C has what is replaced here, on machines of 64 bits.
const (
	vfsSize, vfsOpen         = 168, 40
	methodsSize, methodsSync = 152, 40
)

var theDisk struct {
	*Disk
	once         sync.Once
	vfs, realVFS uintptr
	openReal     uintptr
	tables       map[uintptr]uintptr // a file's methods, and the same with ours
	syncReal     map[uintptr]uintptr
	tablesMu     sync.Mutex
}

func pointerOf(f any) uintptr { return (*[2]uintptr)(unsafe.Pointer(&f))[1] }

type (
	openFunc = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	syncFunc = func(tls *libc.TLS, file uintptr, flags int32) int32
)

func word(at uintptr) []byte { return libc.GoBytes(at, 8) }

func pointerAt(at uintptr) uintptr { return uintptr(binary.NativeEndian.Uint64(word(at))) }

func setPointer(at, p uintptr) { binary.NativeEndian.PutUint64(word(at), uint64(p)) }

var errVFS = errors.New("powercut: SQLite does not take the disk")

// Watch has all stores of the process that are opened from now on seen by a disk, until the end of that is called.
func Watch() (d *Disk, end func() error, err error) {
	tls := libc.NewTLS()
	defer tls.Close()
	k := &theDisk
	k.once.Do(func() {
		k.realVFS = lib.Xsqlite3_vfs_find(tls, 0)
		k.vfs = libc.Xmalloc(tls, vfsSize)
		copy(libc.GoBytes(k.vfs, vfsSize), libc.GoBytes(k.realVFS, vfsSize))
		var name uintptr
		if name, err = libc.CString("watched"); err != nil {
			return
		}
		setPointer(k.vfs+24, name)
		k.openReal = pointerAt(k.vfs + vfsOpen)
		k.tables, k.syncReal = map[uintptr]uintptr{}, map[uintptr]uintptr{}
		setPointer(k.vfs+vfsOpen, pointerOf(openFunc(openWatched)))
	})
	if err != nil {
		return nil, nil, err
	}
	k.Disk = &Disk{names: map[uintptr]string{}, synced: map[string][]byte{}}
	if rc := lib.Xsqlite3_vfs_register(tls, k.vfs, 1); rc != lib.SQLITE_OK {
		return nil, nil, errVFS
	}
	return k.Disk, func() error {
		tls := libc.NewTLS()
		defer tls.Close()
		if rc := lib.Xsqlite3_vfs_register(tls, k.realVFS, 1); rc != lib.SQLITE_OK {
			return errVFS
		}
		return nil
	}, nil
}

func openWatched(tls *libc.TLS, _, name, file uintptr, flags int32, out uintptr) int32 {
	k := &theDisk
	open := *(*openFunc)(unsafe.Pointer(&struct{ uintptr }{k.openReal}))
	rc := open(tls, k.realVFS, name, file, flags, out)
	if rc != lib.SQLITE_OK || name == 0 {
		return rc
	}
	k.tablesMu.Lock()
	defer k.tablesMu.Unlock()
	table := pointerAt(file)
	ours, ok := k.tables[table]
	if !ok {
		ours = libc.Xmalloc(tls, methodsSize)
		copy(libc.GoBytes(ours, methodsSize), libc.GoBytes(table, methodsSize))
		k.syncReal[ours] = pointerAt(table + methodsSync)
		setPointer(ours+methodsSync, pointerOf(syncFunc(syncWatched)))
		k.tables[table] = ours
	}
	setPointer(file, ours)
	k.Disk.mu.Lock()
	defer k.Disk.mu.Unlock()
	k.names[file] = libc.GoString(name)
	return rc
}

func syncWatched(tls *libc.TLS, file uintptr, flags int32) int32 {
	k := &theDisk
	if k.fails.Load() {
		return lib.SQLITE_IOERR_FSYNC
	}
	time.Sleep(time.Duration(k.stalls.Load())) // real: a disk that is slow
	k.tablesMu.Lock()
	method := k.syncReal[pointerAt(file)]
	k.tablesMu.Unlock()
	rc := (*(*syncFunc)(unsafe.Pointer(&struct{ uintptr }{method})))(tls, file, flags)
	if rc == lib.SQLITE_OK {
		k.Disk.mu.Lock()
		defer k.Disk.mu.Unlock()
		name := k.names[file]
		if content, err := readInto(k.synced[name], name); err == nil {
			k.synced[name] = content
		}
	}
	return rc
}

// readInto reads a file into a buffer, or a larger one.
func readInto(b []byte, name string) (_ []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	is, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if size := int(is.Size()); cap(b) < size {
		b = make([]byte, size, size*2)
	} else {
		b = b[:size]
	}
	n, err := io.ReadFull(f, b)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// Fail has all syncs fail, or no longer.
func (d *Disk) Fail(fails bool) { d.fails.Store(fails) }

// Stall has each sync take so much longer.
func (d *Disk) Stall(long time.Duration) { d.stalls.Store(int64(long)) }

// Cut writes what is left of the store at a path when the power goes now, as a store at another path: of its log what
// was synced, and so many bytes of the rest as more says. Nothing is synced any more until then has returned.
func (d *Disk) Cut(path, left string, more int, then func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, suffix := range []string{"", "-wal"} {
		safe, ok := d.synced[path+suffix]
		now, err := os.ReadFile(path + suffix)
		if err != nil || !ok && suffix == "" {
			safe = now
		}
		if suffix == "-wal" && more > 0 && len(now) > len(safe) {
			safe = now[:min(len(now), len(safe)+more)]
		}
		if err := os.WriteFile(left+suffix, safe, 0o600); err != nil {
			return err
		}
	}
	then()
	return nil
}
