package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func aHello() *hello {
	return &hello{Cluster: "c", Group: "g", ID: 3, Life: 12, Learner: true, Fetch: true, Epoch: 9, SetEpoch: 4, LastEpoch: 8, Min: 100, End: 5000, SegmentSize: 1 << 20, Tail: 4096, TailSum: 7}
}

func aWelcome() *welcome {
	return &welcome{Verdict: diverged, Epoch: 9, LastEpoch: 4, Offset: 200, Min: 100, End: 5000, Reason: "why"}
}

func aData() []byte {
	d := data{Epoch: 9, Part: Epoch{8, 100}, Offset: 200, Confirm: 150, Body: []byte("records")}
	frame := append(make([]byte, 4+dataHead), d.Body...)
	d.putHeader(frame)
	return frame
}

func aSnapshot() *snapshot {
	return &snapshot{Epoch: 9, Base: 1 << 30, Applied: 3 << 30, At: 9, Below: Epoch{8, 100}, Size: 12345}
}

func aChunk() []byte {
	c := chunk{Epoch: 9, Offset: 200, Body: []byte("rows")}
	frame := append(make([]byte, 4+chunkHead), c.Body...)
	c.putHeader(frame)
	return frame
}

func TestSnapshotFrames(t *testing.T) {
	var f fetch
	if err := f.decode((&fetch{9}).encode()[4:]); err != nil || f.Epoch != 9 {
		t.Errorf("%+v %v", f, err)
	}
	var s snapshot
	if err := s.decode(aSnapshot().encode()[4:]); err != nil || s != *aSnapshot() {
		t.Errorf("%+v %v", s, err)
	}
	var c chunk
	if err := c.decode(aChunk()[4:]); err != nil || c.Epoch != 9 || c.Offset != 200 || string(c.Body) != "rows" {
		t.Errorf("%+v %v", c, err)
	}
	for name, decode := range map[string]func([]byte) error{"snapshot": s.decode, "chunk": c.decode} {
		frame := aSnapshot().encode()[4:]
		if name == "chunk" {
			frame = aChunk()[4:]
		}
		for i := range len(frame) * 8 {
			b := bytes.Clone(frame)
			b[i/8] ^= 1 << (i % 8)
			if decode(b) == nil {
				t.Errorf("%s: bit %d flipped", name, i)
			}
		}
	}
	for name, change := range map[string]func(s *snapshot){
		"a state older than the log": func(s *snapshot) { s.Applied = s.Base - 1 },
		"nothing":                    func(s *snapshot) { s.Size = 0 },
		"an epoch of the future":     func(s *snapshot) { s.At = 10 },
		"an epoch that came later":   func(s *snapshot) { s.Below.Epoch = 9; s.At = 8 },
		"an epoch above":             func(s *snapshot) { s.Below.Start = s.Base },
		"a start without an epoch":   func(s *snapshot) { s.Below.Epoch = 0 },
		"a negative base":            func(s *snapshot) { s.Base = -1 },
	} {
		s := aSnapshot()
		change(s)
		if new(snapshot).decode(s.encode()[4:]) == nil {
			t.Error(name)
		}
	}
}

func TestFrames(t *testing.T) {
	var h hello
	if err := h.decode(aHello().encode()[4:]); err != nil || h != *aHello() {
		t.Errorf("%+v %v", h, err)
	}
	var w welcome
	if err := w.decode(aWelcome().encode()[4:]); err != nil || w != *aWelcome() {
		t.Errorf("%+v %v", w, err)
	}
	var d data
	if err := d.decode(aData()[4:]); err != nil || d.Epoch != 9 || d.Part != (Epoch{8, 100}) || d.Offset != 200 || d.Confirm != 150 || string(d.Body) != "records" {
		t.Errorf("%+v %v", d, err)
	}
	var b [4 + ackSize]byte
	(&ack{9, 1 << 40}).put(&b)
	var a ack
	if err := a.decode(b[4:]); err != nil || a != (ack{9, 1 << 40}) {
		t.Errorf("%+v %v", a, err)
	}
	if long := (&welcome{Verdict: refused, Reason: strings.Repeat("x", 1000)}).encode(); w.decode(long[4:]) != nil || len(w.Reason) != 255 {
		t.Error(len(w.Reason))
	}
}

// TestFramesOfStrangers: whatever is changed in a frame is noticed, or harmless.
func TestFramesOfStrangers(t *testing.T) {
	for name, f := range map[string]struct {
		frame  []byte
		decode func([]byte) error
	}{
		"hello":    {aHello().encode(), new(hello).decode},
		"welcome":  {aWelcome().encode(), new(welcome).decode},
		"data":     {aData(), new(data).decode},
		"fetch":    {(&fetch{9}).encode(), new(fetch).decode},
		"snapshot": {aSnapshot().encode(), new(snapshot).decode},
		"chunk":    {aChunk(), new(chunk).decode},
	} {
		for n := 4; n < len(f.frame); n++ {
			if f.decode(f.frame[4:n]) == nil {
				t.Errorf("%s cut to %d bytes", name, n)
			}
		}
		if f.decode(append(f.frame[4:len(f.frame):len(f.frame)], 0)) == nil {
			t.Errorf("%s with a byte more", name)
		}
	}
	for i := 4 + dataHead; i < len(aData()); i++ {
		b := aData()
		b[i] ^= 1
		if new(data).decode(b[4:]) == nil {
			t.Errorf("a bit flipped at %d", i)
		}
	}
	for name, change := range map[string]func(h *hello){
		"an end before the beginning": func(h *hello) { h.End = 50 },
		"a negative beginning":        func(h *hello) { h.Min = -1 },
		"a huge tail":                 func(h *hello) { h.Tail = 1 << 30 },
		"more tail than log":          func(h *hello) { h.Tail, h.End = 4096, 200 },
		"a negative epoch":            func(h *hello) { h.LastEpoch = -1 },
	} {
		h := aHello()
		change(h)
		if new(hello).decode(h.encode()[4:]) == nil {
			t.Error(name)
		}
	}
	http := []byte("GET / HTTP/1.1\r\n\r\n")
	if err := new(hello).decode(http); !errors.Is(err, errStranger) {
		t.Error(err)
	}
}

// TestAnnouncedFrame: a frame costs the memory that arrives, not the memory that is announced.
func TestAnnouncedFrame(t *testing.T) {
	p := binary.BigEndian.AppendUint32(nil, 200<<20)
	p = append(p, make([]byte, 1000)...)
	buf, err := readFrame(bytes.NewReader(p), nil, maxData)
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) || cap(buf) > 1<<20 {
		t.Fatal(cap(buf), err)
	}
	for _, n := range []uint32{0, maxData + 1, 1 << 31, 1<<32 - 1} {
		if _, err := readFrame(bytes.NewReader(binary.BigEndian.AppendUint32(nil, n)), nil, maxData); !errors.Is(err, errFrame) {
			t.Error(n, err)
		}
	}
	big := append(binary.BigEndian.AppendUint32(nil, 3<<20), bytes.Repeat([]byte{7}, 3<<20)...)
	if buf, err := readFrame(iotest.HalfReader(bytes.NewReader(big)), nil, maxData); err != nil || !bytes.Equal(buf, big[4:]) {
		t.Error(len(buf), err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(aHello().encode()[4:])
	f.Add(aWelcome().encode()[4:])
	f.Add(aData()[4:])
	f.Add((&fetch{9}).encode()[4:])
	f.Add(aSnapshot().encode()[4:])
	f.Add(aChunk()[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		var h hello
		if h.decode(b) == nil {
			if h2 := new(hello); h2.decode(h.encode()[4:]) != nil || *h2 != h {
				t.Errorf("%+v", h)
			}
		}
		var w welcome
		if w.decode(b) == nil {
			if w2 := new(welcome); w2.decode(w.encode()[4:]) != nil || *w2 != w {
				t.Errorf("%+v", w)
			}
		}
		var s snapshot
		if s.decode(b) == nil {
			if !bytes.Equal(s.encode()[4:], b) {
				t.Errorf("%+v", s)
			}
		}
		var c chunk
		if c.decode(b) == nil {
			frame := append(make([]byte, 4+chunkHead), c.Body...)
			c.putHeader(frame)
			if !bytes.Equal(frame[4:], b) {
				t.Errorf("%+v", c)
			}
		}
		_ = new(fetch).decode(b)
		_ = new(data).decode(b)
		_ = new(ack).decode(b)
	})
}

// FuzzStream: however a stream is cut into pieces, the frames are the same.
func FuzzStream(f *testing.F) {
	f.Add(append(aHello().encode(), aData()...), uint8(3))
	f.Add([]byte{0, 0, 0, 1, 7, 0, 0, 0}, uint8(1))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		read := func(step int) (got [][]byte, err error) {
			fs := frames{limit: 1 << 10}
			for rest := b; len(rest) > 0 && err == nil; {
				n := min(step, len(rest))
				err = fs.add(rest[:n:n], func(frame []byte) error {
					got = append(got, bytes.Clone(frame))
					return nil
				})
				rest = rest[n:]
			}
			if len(fs.part) > len(b) {
				t.Fatalf("%d bytes are kept of %d", len(fs.part), len(b))
			}
			return got, err
		}
		whole, werr := read(len(b) + 1)
		cut, cerr := read(int(step) + 1)
		if (werr == nil) != (cerr == nil) || !slices.EqualFunc(whole, cut, bytes.Equal) {
			t.Fatalf("%d frames (%v) in one piece, %d (%v) in pieces of %d", len(whole), werr, len(cut), cerr, step+1)
		}
		var one []byte
		r := bytes.NewReader(b)
		for _, w := range whole { // as readFrame sees them
			var err error
			if one, err = readFrame(r, one, 1<<10); err != nil || !bytes.Equal(one, w) {
				t.Fatalf("%x (%v), not %x", one, err, w)
			}
		}
	})
}
