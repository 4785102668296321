package replica

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
)

// Epoch says where the part of a log begins that the master of one epoch has written.
type Epoch struct {
	Epoch int32
	Start int64 // log offset
}

// Epochs are the parts of a log, oldest first: epochs and starts grow strictly. What lies below the first one was written before
// there were masters; it counts as epoch 0. Epochs is a value: no method changes it.
type Epochs []Epoch

// Last is the newest epoch, 0 if there is none.
func (e Epochs) Last() int32 {
	if len(e) == 0 {
		return 0
	}
	return e[len(e)-1].Epoch
}

// Begin returns e with an epoch that starts at an offset. Epochs that start there or later wrote nothing that is still in the log
// and are left out, as in Kafka's leader epoch cache; Java's EpochFileCache keeps them, and gives two masters one epoch.
func (e Epochs) Begin(epoch int32, start int64) Epochs {
	return append(e.Cut(start), Epoch{epoch, start})
}

// Cut returns the epochs of a log that ends at an offset.
func (e Epochs) Cut(end int64) Epochs {
	n := len(e)
	for n > 0 && e[n-1].Start >= end {
		n--
	}
	return e[:n:n]
}

// Drop returns the epochs of a log that begins at an offset.
func (e Epochs) Drop(begin int64) Epochs {
	n := 0
	for n+1 < len(e) && e[n+1].Start <= begin {
		n++
	}
	return e[n:]
}

// At returns the epoch of the byte at an offset and where the next one starts (MaxInt64 for the last).
func (e Epochs) At(offset int64) (part Epoch, next int64) {
	next = math.MaxInt64
	for i := len(e) - 1; i >= 0; i-- {
		if e[i].Start <= offset {
			return e[i], next
		}
		next = e[i].Start
	}
	return Epoch{}, next
}

// Floor returns the newest epoch that is not newer than epoch, and where it ends in a log that ends at end.
func (e Epochs) Floor(epoch int32, end int64) (floor int32, at int64) {
	at = end
	for i := len(e) - 1; i >= 0; i-- {
		if e[i].Epoch <= epoch {
			return e[i].Epoch, at
		}
		at = e[i].Start
	}
	return 0, at
}

// Common returns how far two logs can be the same, given the other log's newest epoch that is not newer than ours and where it
// ends there (its Floor of our last epoch). When it is below end, the caller cuts there and asks again with what is left: the
// result is certain once our last epoch is the one that was answered.
func (e Epochs) Common(theirs int32, theirEnd, end int64) int64 {
	own, ownEnd := e.Floor(theirs, end)
	if own == theirs {
		return min(ownEnd, theirEnd)
	}
	return ownEnd // the other log has no bytes of ours in between
}

// Encode writes the file epochFileCheckpoint (EpochFileCache, CheckpointFile): the number of lines, the CRC-32 of the lines
// without its sign bit, and epoch-startOffset per line.
func (e Epochs) Encode() []byte {
	var lines strings.Builder
	for _, p := range e {
		fmt.Fprintf(&lines, "%d-%d\n", p.Epoch, p.Start)
	}
	return fmt.Appendf(nil, "%d\n%d\n%s", len(e), crc32.ChecksumIEEE([]byte(lines.String()))&math.MaxInt32, lines.String())
}

// errEpochFile says that an epoch file is damaged.
var errEpochFile = errors.New("no epoch file, or a damaged one")

// DecodeEpochs reads the file. A sum of 0 is not checked, as in Java.
func DecodeEpochs(text []byte) (Epochs, error) {
	count, rest, ok1 := strings.Cut(string(text), "\n")
	sum, lines, ok2 := strings.Cut(rest, "\n")
	n, err1 := strconv.ParseUint(count, 10, 31)
	want, err2 := strconv.ParseUint(sum, 10, 31)
	if !ok1 || !ok2 || err1 != nil || err2 != nil {
		return nil, errEpochFile
	}
	if want != 0 && uint64(crc32.ChecksumIEEE([]byte(lines))&math.MaxInt32) != want {
		return nil, fmt.Errorf("%w: wrong sum", errEpochFile)
	}
	var e Epochs
	for line := range strings.Lines(lines) {
		epoch, start, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "-")
		p, err1 := strconv.ParseInt(epoch, 10, 32)
		at, err2 := strconv.ParseInt(start, 10, 64)
		if err1 != nil || err2 != nil || p < 1 || at < 0 || len(e) > 0 && (int32(p) <= e.Last() || at <= e[len(e)-1].Start) {
			return nil, fmt.Errorf("%w: line %q", errEpochFile, line)
		}
		e = append(e, Epoch{int32(p), at})
	}
	if uint64(len(e)) != n {
		return nil, fmt.Errorf("%w: %d lines, %d announced", errEpochFile, len(e), n)
	}
	return e, nil
}
