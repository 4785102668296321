package member

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/castor-mq/castor/internal/vfs"
)

// identity is the content of brokerIdentity; with a check code, that of brokerIdentity-temp.
type identity struct {
	cluster, name string
	id            int64
	checkCode     string // made up by the broker, address;time: who applies again with it is the same broker
}

// String returns the line of the file.
func (i identity) String() string {
	line := i.cluster + "#" + i.name + "#" + strconv.FormatInt(i.id, 10)
	if i.checkCode != "" {
		line += "#" + i.checkCode
	}
	return line
}

// parseIdentity reads the line of a file.
func parseIdentity(line string) (identity, error) {
	parts := strings.Split(strings.TrimRight(line, "\r\n"), "#")
	if len(parts) < 3 || len(parts) > 4 {
		return identity{}, fmt.Errorf("%.100q is not cluster#name#id", line)
	}
	id, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || id < 1 {
		return identity{}, fmt.Errorf("%.100q: the id is not a number from 1 on", line)
	}
	i := identity{cluster: parts[0], name: parts[1], id: id}
	if len(parts) == 4 {
		i.checkCode = parts[3]
	}
	return i, nil
}

// checkName refuses what would not survive the file.
func checkName(key, name string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == '#' || unicode.IsControl(r) }) {
		return fmt.Errorf("%s %q: in controller mode it must not be empty and must not hold # or control characters", key, name)
	}
	return nil
}

// files keep the identity.
type files struct {
	fs   vfs.FS
	path string // of brokerIdentity
}

func (f files) temp() string { return f.path + "-temp" }

// load returns what the files say: the identity, or else the application for one, or else nil. A file that cannot be read or
// belongs to another broker is an error: a new id in its place would leave a dead replica behind, in a store of somebody else.
func (f files) load(cluster, name string) (own, applied *identity, err error) {
	if own, err = f.read(f.path, cluster, name); own != nil || err != nil {
		return own, nil, err
	}
	if applied, err = f.read(f.temp(), cluster, name); err == nil && applied != nil && applied.checkCode == "" {
		err = fmt.Errorf("%s: the check code is missing; remove the file to get an id", f.temp())
	}
	return nil, applied, err
}

func (f files) read(path, cluster, name string) (*identity, error) {
	text, err := f.fs.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	i, err := parseIdentity(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w; correct the file, or remove it to get a new id", path, err)
	}
	if i.cluster != cluster || i.name != name {
		return nil, fmt.Errorf("%s belongs to broker %s of cluster %s, but this is %s of %s: give each broker a store of its own, or remove the file",
			path, i.name, i.cluster, name, cluster)
	}
	return &i, nil
}

// apply writes down that an id is applied for.
func (f files) apply(i identity) error {
	if err := f.fs.MkdirAll(filepath.Dir(f.path)); err != nil {
		return err
	}
	return f.fs.WriteFileAtomic(f.temp(), []byte(i.String()))
}

// settle writes down that the id is given.
func (f files) settle(i identity) error {
	i.checkCode = ""
	if err := f.fs.WriteFileAtomic(f.path, []byte(i.String())); err != nil {
		return err
	}
	return f.withdraw()
}

// withdraw forgets the application.
func (f files) withdraw() error {
	if err := f.fs.Remove(f.temp()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// starts is the file that counts how often this broker has started.
func (f files) starts() string { return f.path + "-starts" }

// countStart adds one to what is counted, or to floor if that is more, and returns the sum.
func (f files) countStart(floor int64) (int64, error) {
	text, err := f.fs.ReadFile(f.starts())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || n < 0 {
		n = 0 // the controllers say what they know
	}
	n = max(n, floor) + 1
	return n, f.fs.WriteFileAtomic(f.starts(), strconv.AppendInt(nil, n, 10))
}
