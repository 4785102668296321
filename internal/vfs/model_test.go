package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is what Mem must be, told in the simplest way: whole byte slices, one directory level, no sharing.
type model struct {
	mem     *Mem
	files   map[string]*modelFile   // by path
	durable map[string]*modelFile   // by path: the entries at the last SyncDir
	maybe   map[string][]*modelFile // by path: what a crash may show there, nil for nothing
	free    int64                   // blocks
}

type modelFile struct {
	data, synced []byte
	blocks       map[int]bool
}

const modelBlocks = 12

var (
	modelDirs  = []string{"/x", "/y"}
	modelPaths = []string{"/x/a", "/x/b", "/x/c", "/y/a", "/y/b", "/y/c"}
)

func newModel(t *rapid.T) *model {
	m := &model{mem: newMem(), files: map[string]*modelFile{}, durable: map[string]*modelFile{}, free: modelBlocks}
	m.maybe = map[string][]*modelFile{}
	for _, path := range modelPaths {
		m.maybe[path] = []*modelFile{nil}
	}
	for _, dir := range modelDirs {
		if err := m.mem.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.mem.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	m.mem.SetFree(modelBlocks * memBlock)
	return m
}

// set gives path a new meaning; the one it had before may come back in a crash.
func (m *model) set(path string, f *modelFile) {
	if f == nil {
		delete(m.files, path)
	} else {
		m.files[path] = f
	}
	m.maybe[path] = append(m.maybe[path], f)
}

func (m *model) release(f *modelFile, from int) {
	for i := range f.blocks {
		if i >= from {
			delete(f.blocks, i)
			m.free++
		}
	}
}

// reserve takes the blocks of [off, off+n) and returns for how many bytes they sufficed.
func (m *model) reserve(f *modelFile, off, n int) int {
	for at := range n {
		if i := (off + at) / memBlock; !f.blocks[i] {
			if m.free == 0 {
				return at
			}
			m.free--
			f.blocks[i] = true
		}
	}
	return n
}

func resize(data []byte, size int) []byte {
	if size <= len(data) {
		return data[:size]
	}
	return append(slices.Clone(data), make([]byte, size-len(data))...)
}

func drawPath(t *rapid.T, label string) string { return rapid.SampledFrom(modelPaths).Draw(t, label) }

// withFile opens the file in both worlds; where it is missing, both must say so.
func (m *model) withFile(t *rapid.T, f func(real File, ref *modelFile)) {
	path := drawPath(t, "path")
	real, err := m.mem.Open(path)
	ref := m.files[path]
	if ref == nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("open of missing %s: %v", path, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	f(real, ref)
	if err := real.Close(); err != nil {
		t.Fatal(err)
	}
}

func (m *model) create(t *rapid.T) {
	path := drawPath(t, "path")
	f, err := m.mem.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if ref := m.files[path]; ref != nil {
		ref.data = nil
		m.release(ref, 0)
		return
	}
	m.set(path, &modelFile{blocks: map[int]bool{}})
}

func (m *model) write(t *rapid.T) {
	m.withFile(t, func(real File, ref *modelFile) {
		off := rapid.IntRange(0, 5*memBlock).Draw(t, "off")
		size := rapid.IntRange(0, 2*memBlock).Draw(t, "size")
		data := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 1, 5).Draw(t, "pattern"), size)[:size]
		want := m.reserve(ref, off, size)
		n, err := real.WriteAt(data, int64(off))
		if n != want || (err == nil) != (want == size) || err != nil && !errors.Is(err, ErrNoSpace) {
			t.Fatalf("wrote %d, %v; want %d of %d", n, err, want, size)
		}
		if want > 0 {
			ref.data = resize(ref.data, max(len(ref.data), off+want))
			copy(ref.data[off:], data[:want])
		}
	})
}

func (m *model) truncate(t *rapid.T) {
	m.withFile(t, func(real File, ref *modelFile) {
		size := rapid.IntRange(0, 6*memBlock).Draw(t, "size")
		if err := real.Truncate(int64(size)); err != nil {
			t.Fatal(err)
		}
		if size < len(ref.data) {
			m.release(ref, (size+memBlock-1)/memBlock)
		}
		ref.data = resize(ref.data, size)
	})
}

func (m *model) allocate(t *rapid.T) {
	m.withFile(t, func(real File, ref *modelFile) {
		off, n := rapid.IntRange(0, 4*memBlock).Draw(t, "off"), rapid.IntRange(1, 4*memBlock).Draw(t, "n")
		before, free := maps.Clone(ref.blocks), m.free
		fits := m.reserve(ref, off, n) == n
		if err := real.Allocate(int64(off), int64(n)); (err == nil) != fits || err != nil && !errors.Is(err, ErrNoSpace) {
			t.Fatalf("allocate: %v, fits %v", err, fits)
		}
		if !fits {
			ref.blocks, m.free = before, free
			return
		}
		ref.data = resize(ref.data, max(len(ref.data), off+n))
	})
}

func (m *model) sync(t *rapid.T) {
	m.withFile(t, func(real File, ref *modelFile) {
		if err := real.SyncData(); err != nil {
			t.Fatal(err)
		}
		ref.synced = slices.Clone(ref.data)
	})
}

// rename stays in one directory: one that ties two together has a test of its own.
func (m *model) rename(t *rapid.T) {
	from := drawPath(t, "from")
	to := filepath.Join(filepath.Dir(from), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "to"))
	err := m.mem.Rename(from, to)
	f := m.files[from]
	if (f == nil) != errors.Is(err, fs.ErrNotExist) || f != nil && err != nil {
		t.Fatalf("rename %s to %s: %v", from, to, err)
	}
	if f == nil || from == to {
		return
	}
	if old := m.files[to]; old != nil {
		m.release(old, 0)
	}
	m.set(to, f)
	m.set(from, nil)
}

func (m *model) remove(t *rapid.T) {
	path := drawPath(t, "path")
	err := m.mem.Remove(path)
	f := m.files[path]
	if (f == nil) != errors.Is(err, fs.ErrNotExist) || f != nil && err != nil {
		t.Fatalf("remove %s: %v", path, err)
	}
	if f != nil {
		m.release(f, 0)
		m.set(path, nil)
	}
}

func (m *model) syncDir(t *rapid.T) {
	dir := rapid.SampledFrom(modelDirs).Draw(t, "dir")
	if err := m.mem.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
	for _, path := range modelPaths {
		if filepath.Dir(path) == dir {
			m.durable[path] = m.files[path]
			m.maybe[path] = []*modelFile{m.files[path]}
		}
	}
}

// crash looks at what a power loss could leave now.
func (m *model) crash(t *rapid.T) {
	for _, path := range modelPaths {
		wantFile(t, m.mem.CrashClone(nil, CrashKeep), path, m.files[path], func(f *modelFile) []byte { return f.data })
		wantFile(t, m.mem.CrashClone(nil, CrashDrop), path, m.durable[path], func(f *modelFile) []byte { return f.synced })
	}
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	mixed := m.mem.CrashClone(rng, CrashMix)
	for _, path := range modelPaths {
		got, err := mixed.ReadFile(path)
		if !slices.ContainsFunc(m.maybe[path], func(f *modelFile) bool {
			return f == nil && errors.Is(err, fs.ErrNotExist) || f != nil && err == nil && isMix(got, f)
		}) {
			t.Fatalf("%s after a crash: %d bytes, %v", path, len(got), err)
		}
	}
}

func wantFile(t *rapid.T, mem *Mem, path string, f *modelFile, content func(*modelFile) []byte) {
	got, err := mem.ReadFile(path)
	switch {
	case f == nil && !errors.Is(err, fs.ErrNotExist):
		t.Fatalf("%s should be missing: %d bytes, %v", path, len(got), err)
	case f != nil && (err != nil || !bytes.Equal(got, content(f))):
		t.Fatalf("%s: %d bytes, %v; want %d bytes", path, len(got), err, len(content(f)))
	}
}

// isMix tells whether each sector of got is the current or the synced one of f, and the size a possible one.
func isMix(got []byte, f *modelFile) bool {
	size := len(got)
	if size != len(f.data) && size != len(f.synced) && (size < len(f.synced) || size > len(f.data)) {
		return false
	}
	data, synced := resize(f.data, max(size, len(f.data))), resize(f.synced, max(size, len(f.synced)))
	for off := 0; off < size; off += sectorSize {
		end := min(off+sectorSize, size)
		if s := got[off:end]; !bytes.Equal(s, data[off:end]) && !bytes.Equal(s, synced[off:end]) {
			return false
		}
	}
	return true
}

func (m *model) check(t *rapid.T) {
	for _, path := range modelPaths {
		wantFile(t, m.mem, path, m.files[path], func(f *modelFile) []byte { return f.data })
	}
	for _, dir := range modelDirs {
		var want, got []string
		for _, path := range modelPaths {
			if filepath.Dir(path) == dir && m.files[path] != nil {
				want = append(want, filepath.Base(path))
			}
		}
		list, err := m.mem.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range list {
			got = append(got, entry.Name())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s lists %q, want %q", dir, got, want)
		}
	}
	if _, avail, err := m.mem.Usage("/"); err != nil || avail != m.free*memBlock {
		t.Fatalf("%d bytes free, %v; want %d blocks", avail, err, m.free)
	}
}

func TestMemMatchesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"create": m.create, "write": m.write, "truncate": m.truncate, "allocate": m.allocate,
			"sync": m.sync, "rename": m.rename, "remove": m.remove, "sync dir": m.syncDir, "crash": m.crash, "": m.check,
		})
	})
}
