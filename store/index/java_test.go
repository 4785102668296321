package index

import (
	"bytes"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/vfs"
)

func TestKeyHash(t *testing.T) {
	for _, c := range []struct {
		topic, key string
		want       int32
	}{
		{"TopicTest", "k1", 2746024},
		{"TopicTest", "KEY1", 1656969516}, // The hash code is negative.
		{"", "", '#'},
	} {
		if got := HashTopic(c.topic).keyHash([]byte(c.key)); got != c.want {
			t.Errorf("hash of %s#%s is %d, want %d", c.topic, c.key, got, c.want)
		}
	}
	for state, want := range map[int32]int32{math.MinInt32: 0, -1: 1, math.MaxInt32: math.MaxInt32} {
		if got := (TopicHash{uint32(state)}).keyHash(nil); got != want {
			t.Errorf("absolute value of %d is %d, want %d", state, got, want)
		}
	}
}

func FuzzKeyHash(f *testing.F) {
	for _, s := range []string{"", "k1", "12345678", "AC1400020E30723C4CF53A9393C176007A", "Straße-ключ", "0123456é", "😀😀 key", "0123456789\xff\xed\xa0\x80"} {
		f.Add("Topic", s)
		f.Add("%RETRY%größe", s)
	}
	f.Fuzz(func(t *testing.T, topic, key string) {
		want := int32(0)
		for _, unit := range utf16.Encode([]rune(topic + "#" + key)) {
			want = 31*want + int32(unit)
		}
		want = max(max(want, -want), 0)
		if got := HashTopic(topic).keyHash([]byte(key)); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}

// TestSameFilesAsJava puts what a Java broker has put and compares every byte of every file.
func TestSameFilesAsJava(t *testing.T) {
	java := readJava(t, "v5")
	for name, every := range map[string]int{"flushed once": math.MaxInt, "flushed often": 17} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem(newClock())
			x := open(t, javaConfig("/index"), fsys)
			for i, r := range java.records {
				r.put(x)
				if i%every == every-1 {
					_, err := x.Flush(i%2 == 0)
					must(t, err)
				}
			}
			must(t, x.Close())
			names := list(t, fsys, "/index")
			if len(names) != len(java.names) {
				t.Fatalf("files %q, want %d", names, len(java.names))
			}
			for i, name := range names {
				got, err := fsys.ReadFile(filepath.Join("/index", name))
				must(t, err)
				compareFiles(t, java.names[i], got, java.files[java.names[i]])
			}
		})
	}
}

// compareFiles names the field that differs.
func compareFiles(t *testing.T, name string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d bytes, want %d", name, len(got), len(want))
		return
	}
	if g, w := decodeHeader(got), decodeHeader(want); g != w {
		t.Errorf("%s: header %+v, want %+v", name, g, w)
	}
	f := file{slotCount: 1000}
	for i := range 1000 {
		at := f.slotOffset(i)
		if g, w := binary.BigEndian.Uint32(got[at:]), binary.BigEndian.Uint32(want[at:]); g != w {
			t.Errorf("%s: slot %d is %d, want %d", name, i, g, w)
		}
	}
	for n := range int32(800) {
		at := f.entryOffset(n)
		if g, w := decodeEntry(got[at:]), decodeEntry(want[at:]); g != w {
			t.Errorf("%s: entry %d is %+v, want %+v", name, n, g, w)
		}
	}
}

func TestQueriesOfJavaFiles(t *testing.T) {
	for _, name := range []string{"v5", "crashed"} {
		t.Run(name, func(t *testing.T) {
			java := readJava(t, name)
			fsys := vfs.NewMem(newClock())
			java.write(t, fsys, "/index")
			x := open(t, javaConfig("/index"), fsys)
			want := map[int32][]int64{} // By hash: some tags of the store collide.
			for _, r := range java.records {
				for _, k := range r.indexKeys() {
					hash := HashTopic(r.Topic).keyHash([]byte(k))
					if !slices.Contains(want[hash], r.Phy) {
						want[hash] = append([]int64{r.Phy}, want[hash]...)
					}
					if found := ask(t, x, r.Topic, k, 1<<20, r.Time, r.Time); !slices.Contains(found, r.Phy) {
						t.Errorf("%s#%s: offset %d is not found at its own time", r.Topic, k, r.Phy)
					}
				}
			}
			for _, r := range java.records {
				for _, k := range r.indexKeys() {
					got := ask(t, x, r.Topic, k, 1<<20, 0, math.MaxInt64)
					if diff := cmp.Diff(want[HashTopic(r.Topic).keyHash([]byte(k))], got); diff != "" {
						t.Fatalf("%s#%s: -want +got\n%s", r.Topic, k, diff)
					}
				}
			}
			newest := decodeHeader(java.files[java.names[len(java.names)-1]])
			if at, phy := x.LastUpdate(); at != newest.endTime || phy != newest.endPhy || x.Indexed() != phy {
				t.Errorf("last update %d at %d", phy, at)
			}
			must(t, x.Close())
			for _, name := range java.names { // Opening and closing changes nothing.
				got, err := fsys.ReadFile(filepath.Join("/index", name))
				must(t, err)
				compareFiles(t, name, got, java.files[name])
			}
		})
	}
}

// TestContinueJavaFile cuts a Java store at many places and puts the rest again: the files must come out as Java's.
func TestContinueJavaFile(t *testing.T) {
	java := readJava(t, "v5")
	for cut := 0; cut < len(java.records); cut += 37 {
		fsys := vfs.NewMem(newClock())
		java.write(t, fsys, "/index")
		x := open(t, javaConfig("/index"), fsys)
		end := java.records[cut].Phy
		must(t, x.Truncate(end))
		if x.Indexed() != end {
			t.Fatalf("cut at %d, indexed %d", end, x.Indexed())
		}
		for _, r := range java.records[cut:] {
			r.put(x)
		}
		must(t, x.Close())
		names := list(t, fsys, "/index")
		for i, name := range names {
			got, err := fsys.ReadFile(filepath.Join("/index", name))
			must(t, err)
			compareFiles(t, java.names[i], got, java.files[java.names[i]])
		}
	}
}
