package member

import (
	"strings"
	"testing"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
)

const path = "/store/brokerIdentity"

func TestIdentityFiles(t *testing.T) {
	for _, tc := range []struct {
		name, own, temp string // empty: no such file
		id, applied     int64
		bad             string // in the error
	}{
		{"new broker", "", "", 0, 0, ""},
		{"as Java writes it", "C#broker-a#3", "", 3, 0, ""},
		{"edited by hand", "C#broker-a#3\n", "", 3, 0, ""},
		{"application", "", "C#broker-a#2#10.0.0.1:10911;1700000000000", 0, 2, ""},
		{"identity wins", "C#broker-a#3", "garbage", 3, 0, ""},
		{"other cluster", "D#broker-a#3", "", 0, 0, "cluster D"},
		{"other name", "C#broker-b#3", "", 0, 0, "broker-b"},
		{"application of another", "", "C#broker-b#3#x;1", 0, 0, "broker-b"},
		{"application without a code", "", "C#broker-a#3", 0, 0, "check code"},
		{"too short", "C#broker-a", "", 0, 0, "is not"},
		{"too long", "C#broker-a#1#x#y", "", 0, 0, "is not"},
		{"no number", "C#broker-a#one", "", 0, 0, "number"},
		{"no id", "C#broker-a#0", "", 0, 0, "number"},
		{"beyond a number", "C#broker-a#9223372036854775808", "", 0, 0, "number"},
		{"torn", "\n", "", 0, 0, "is not"},
	} {
		fs := vfs.NewMem(clock.Real{})
		write(t, fs, path, tc.own)
		write(t, fs, path+"-temp", tc.temp)
		own, applied, err := files{fs, path}.load("C", "broker-a")
		if tc.bad != "" {
			if err == nil || !strings.Contains(err.Error(), tc.bad) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if err != nil || idOf(own) != tc.id || idOf(applied) != tc.applied {
			t.Errorf("%s: %v, %v, %v", tc.name, own, applied, err)
		}
	}
}

func idOf(i *identity) int64 {
	if i == nil {
		return 0
	}
	return i.id
}

func write(t *testing.T, fs vfs.FS, name, text string) {
	t.Helper()
	if text == "" {
		return
	}
	if err := fs.MkdirAll("/store"); err != nil {
		t.Fatal(err)
	}
	if err := fs.WriteFileAtomic(name, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func TestIdentityIsWritten(t *testing.T) {
	fs := vfs.NewMem(clock.Real{})
	f := files{fs, path}
	i := identity{"C", "broker-a", 2, "a:1;5"}
	if err := f.apply(i); err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(path + "-temp")
	if err != nil || string(text) != "C#broker-a#2#a:1;5" {
		t.Errorf("%q, %v", text, err)
	}
	if err := f.settle(i); err != nil {
		t.Fatal(err)
	}
	text, err = fs.ReadFile(path)
	if err != nil || string(text) != "C#broker-a#2" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := fs.Stat(path + "-temp"); err == nil {
		t.Error("the application is still there")
	}
	if err := f.withdraw(); err != nil {
		t.Error(err)
	}
}

func TestNamesForTheFile(t *testing.T) {
	for name, ok := range map[string]bool{"broker-a": true, "ä b": true, "": false, "a#b": false, "a\nb": false} {
		if err := checkName("brokerName", name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func FuzzIdentity(f *testing.F) {
	for _, line := range []string{"", "C#b#1", "C#b#1#a:1;2", "##1", "C#b#-1", "C#b#+1\r\n", "C#b#9223372036854775807", "#\x00#\xff"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		i, err := parseIdentity(line)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		again, err := parseIdentity(i.String())
		if i.id < 1 || err != nil || again != i {
			t.Errorf("%q is %+v, then %+v, %v", line, i, again, err)
		}
	})
}
