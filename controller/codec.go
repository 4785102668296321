package controller

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"reflect"
	"slices"
)

// formatVersion is the version of log entries and snapshots. A member that meets a newer one stops: it would come to another
// state than those that understand it.
const formatVersion = 1

// maxState bounds an unpacked snapshot in bytes.
const maxState = 1 << 30

// ErrFormat is wrapped by errors about entries and snapshots that this version does not understand.
var ErrFormat = errors.New("unknown format")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal puts a checksum before data.
func seal(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, crc32.Checksum(data, castagnoli)), data...)
}

// unseal checks it and returns the data, which aliases sealed.
func unseal(sealed []byte) ([]byte, error) {
	if len(sealed) < 4 || crc32.Checksum(sealed[4:], castagnoli) != binary.BigEndian.Uint32(sealed) {
		return nil, fmt.Errorf("checksum of %d bytes does not match", len(sealed))
	}
	return sealed[4:], nil
}

// commandKinds are the commands by their number in the log. Numbers are never reused.
var commandKinds = map[byte]reflect.Type{
	1: reflect.TypeFor[ApplyID](), 2: reflect.TypeFor[Register](), 3: reflect.TypeFor[AlterSyncStateSet](), 4: reflect.TypeFor[Elect](),
	5: reflect.TypeFor[Clean](), 6: reflect.TypeFor[WantMembers](), 7: reflect.TypeFor[Join](),
}

// entryHead is version, kind and the ticket of an entry.
const entryHead = 2 + 16

// ticket tells the member that has proposed an entry which of its callers waits for it.
type ticket struct {
	run uint64 // random for each start of a process
	seq uint64
}

// encodeCommand returns the data of a log entry: version, kind, ticket, JSON.
func encodeCommand(t ticket, c Command) []byte {
	for kind, typ := range commandKinds {
		if reflect.TypeOf(c).Elem() == typ {
			out := append(make([]byte, 0, 256), formatVersion, kind)
			out = binary.BigEndian.AppendUint64(out, t.run)
			out = binary.BigEndian.AppendUint64(out, t.seq)
			text, err := json.Marshal(c)
			if err != nil {
				panic(fmt.Sprintf("controller: %T: %v", c, err)) // plain data always has a text
			}
			return append(out, text...)
		}
	}
	panic(fmt.Sprintf("controller: %T is no kind of command", c))
}

func decodeCommand(data []byte) (t ticket, c Command, err error) {
	if len(data) < entryHead || data[0] != formatVersion {
		return t, nil, fmt.Errorf("log entry of %d bytes: %w", len(data), ErrFormat)
	}
	typ, ok := commandKinds[data[1]]
	if !ok {
		return t, nil, fmt.Errorf("log entry of kind %d: %w", data[1], ErrFormat)
	}
	t = ticket{binary.BigEndian.Uint64(data[2:]), binary.BigEndian.Uint64(data[10:])}
	c = reflect.New(typ).Interface().(Command)
	if err := json.Unmarshal(data[entryHead:], c); err != nil {
		return t, nil, fmt.Errorf("log entry of kind %d: %w", data[1], err)
	}
	return t, c, nil
}

// stateText is a State as JSON.
type stateText struct {
	Groups []*Group
	Quorum Quorum
}

// Snapshot returns the state as bytes: version, checksum, gzip of JSON.
func (s *State) Snapshot() []byte {
	text := stateText{Quorum: s.quorum, Groups: make([]*Group, 0, len(s.groups))}
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		text.Groups = append(text.Groups, s.groups[name])
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	err := errors.Join(json.NewEncoder(w).Encode(text), w.Close())
	if err != nil {
		panic(fmt.Sprintf("controller: snapshot: %v", err)) // plain data into memory
	}
	return append([]byte{formatVersion}, seal(packed.Bytes())...)
}

// Restore reads what Snapshot has written.
func Restore(data []byte) (*State, error) {
	if len(data) == 0 || data[0] != formatVersion {
		return nil, fmt.Errorf("snapshot of %d bytes: %w", len(data), ErrFormat)
	}
	packed, err := unseal(data[1:])
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	var text stateText
	if err := json.NewDecoder(io.LimitReader(r, maxState)).Decode(&text); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	s := NewState()
	for _, g := range text.Groups {
		if g == nil || g.Replicas == nil {
			return nil, errors.New("snapshot: a group without replicas")
		}
		s.groups[g.Name] = g
	}
	s.quorum.Wanted, s.quorum.Learners = text.Quorum.Wanted, text.Quorum.Learners
	maps.Copy(s.quorum.Members, text.Quorum.Members)
	maps.Copy(s.quorum.Joined, text.Quorum.Joined)
	return s, nil
}
