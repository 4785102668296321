package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func aHello() *hello {
	return &hello{Cluster: "c", Group: "g", ID: 3, Learner: true, Epoch: 9, LastEpoch: 8, Min: 100, End: 5000, SegmentSize: 1 << 20, Tail: 4096, TailSum: 7}
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
		"hello":   {aHello().encode(), new(hello).decode},
		"welcome": {aWelcome().encode(), new(welcome).decode},
		"data":    {aData(), new(data).decode},
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
		_ = new(data).decode(b)
		_ = new(ack).decode(b)
	})
}
