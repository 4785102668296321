package bench

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/castor-mq/castor/remoting"
)

// frameReader cuts what a connection delivers into frames. Its buffer grows to the largest frame seen.
type frameReader struct {
	r          io.Reader
	buf        []byte
	start, end int
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: r, buf: make([]byte, 1<<18)}
}

// fill reads once from the connection. It invalidates frames that next has returned.
func (f *frameReader) fill() error {
	if f.start == f.end {
		f.start, f.end = 0, 0
	} else if f.end == len(f.buf) {
		f.end = copy(f.buf, f.buf[f.start:f.end])
		f.start = 0
	}
	if f.end == len(f.buf) {
		bigger := make([]byte, 2*len(f.buf))
		f.end = copy(bigger, f.buf)
		f.buf = bigger
	}
	n, err := f.r.Read(f.buf[f.end:])
	f.end += n
	if n > 0 {
		return nil
	}
	return err
}

// next returns the next complete frame without its four length bytes, or nil if fill must bring more.
func (f *frameReader) next() ([]byte, error) {
	have := f.buf[f.start:f.end]
	if len(have) < 4 {
		return nil, nil
	}
	size := binary.BigEndian.Uint32(have)
	if size < 4 || size > remoting.MaxFrame-4 {
		return nil, fmt.Errorf("%w: length %d", remoting.ErrFrame, size)
	}
	if uint32(len(have)-4) < size {
		return nil, nil
	}
	f.start += 4 + int(size)
	return have[4 : 4+size], nil
}
