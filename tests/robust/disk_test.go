package robust

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// shortDisk is the real file system with a disk that can be made full: new files get no blocks, and with ratio the partition looks as
// full as that.
type shortDisk struct {
	vfs.FS
	ratio atomic.Int64 // percent; 0: as it is
}

// Usage tells the chosen ratio.
func (d *shortDisk) Usage(path string) (total, avail int64, err error) {
	if r := d.ratio.Load(); r > 0 {
		return 100 << 30, (100 - r) << 30, nil
	}
	return d.FS.Usage(path)
}

// fullDisk returns a disk, and a switch that makes it full: no file gets any more blocks.
func fullDisk() (*shortDisk, *atomic.Bool) {
	full := new(atomic.Bool)
	return &shortDisk{FS: vfs.Faulty(vfs.OS{}, func(op vfs.Op, path string, _, n int64) error {
		switch op {
		case vfs.OpAllocate, vfs.OpMkdirAll:
		case vfs.OpCreate:
			if strings.HasSuffix(path, "lock") {
				return nil
			}
		case vfs.OpWriteAt: // into what is allocated bytes can still be written
			if strings.Contains(path, "commitlog") {
				return nil
			}
		default:
			return nil
		}
		if full.Load() {
			return vfs.ErrNoSpace
		}
		return nil
	})}, full
}

// fill sends until the answer is not a success, and returns it.
func fill(c *cluster, topic string, body []byte) code.Response {
	c.t.Helper()
	for range 100_000 {
		r := c.must(code.SendMessage, sendHeader(topic, 0, ""), body)
		switch rc := code.Response(r.Code); rc {
		case code.Success, code.SystemBusy: // busy: the next segment is being made
		default:
			if !strings.Contains(string(r.Remark), "disk is full") {
				c.t.Errorf("%s: %q", rc, r.Remark)
			}
			return rc
		}
	}
	c.t.Fatal("the disk does not become full")
	return 0
}

// TestAlmostFullDisk: above diskSpaceWarningLevelRatio sends are refused, and taken again when there is room, without a restart.
func TestAlmostFullDisk(t *testing.T) {
	disk := &shortDisk{FS: vfs.OS{}}
	c := startOn(t, disk, t.TempDir(), map[string]string{"cleanResourceInterval": "100"})
	if _, err := c.send(victim, 0, []byte("before")); err != nil {
		t.Fatal(err)
	}
	disk.ratio.Store(96)
	until(t, "sends are refused", func() bool {
		return code.Response(c.must(code.SendMessage, sendHeader(victim, 0, ""), []byte("x")).Code) == code.ServiceNotAvailable
	})
	c.want(code.ServiceNotAvailable, code.SendBatchMessage, batchHeader(victim, ""), item(26, 1, "x", 3, "a\x01b"))
	readAll(c)
	disk.ratio.Store(0)
	until(t, "sends are taken", func() bool {
		_, err := c.send(victim, 0, []byte("after"))
		return err == nil
	})
	c.checkAll()
}

// readAll reads what was acknowledged: consumers do not suffer from a full disk.
func readAll(c *cluster) {
	c.t.Helper()
	for _, r := range c.sent.all() {
		if err := c.read(r); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestNoRoomForTheNextSegment: the log cannot grow. Sends are refused with 14, consumers go on, and sends work again when there is
// room, without a restart.
func TestNoRoomForTheNextSegment(t *testing.T) {
	for _, flush := range []string{"ASYNC_FLUSH", "SYNC_FLUSH"} {
		t.Run(flush, func(t *testing.T) {
			disk, full := fullDisk()
			c := startOn(t, disk, t.TempDir(), map[string]string{"mappedFileSizeCommitLog": "1048576", "maxMessageSize": "65536", "flushDiskType": flush, "cleanResourceInterval": "100",
				"mappedFileSizeConsumeQueue": "20000"})
			if _, err := c.send(victim, 0, []byte("before")); err != nil {
				t.Fatal(err)
			}
			c.must(code.PullMessage, pullHeader(victim, 0, 0), nil) // makes the group
			full.Store(true)
			for range 3 {
				if got := fill(c, victim, make([]byte, 10_000)); got != code.ServiceNotAvailable {
					t.Errorf("a full disk was answered %s", got)
				}
			}
			readAll(c)
			commit := &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: victim, QueueID: header.Some(int32(0)), CommitOffset: header.Some(int64(1))}
			if r := c.must(code.UpdateConsumerOffset, commit, nil); r.Code != 0 && code.Response(r.Code) != code.SystemBusy {
				t.Errorf("a commit was answered %d %q", r.Code, r.Remark)
			}
			full.Store(false)
			until(t, "sends are taken", func() bool {
				_, err := c.send(victim, 0, make([]byte, 60_000))
				return err == nil
			})
			for i := range 200 { // some segments more
				if _, err := c.send(victim, 0, bytes.Repeat([]byte{byte(i)}, 20_000)); err != nil {
					t.Fatal(err)
				}
			}
			c.checkAll()
		})
	}
}

// TestLogTakesNoBytes: a file system may promise room and not have it, so that a write into a segment fails. What was acknowledged
// stays, what was not is refused or answered later, and the broker goes on without a restart.
func TestLogTakesNoBytes(t *testing.T) {
	var full atomic.Bool
	disk := vfs.Faulty(vfs.OS{}, func(op vfs.Op, path string, _, _ int64) error {
		if op == vfs.OpWriteAt && full.Load() {
			return vfs.ErrNoSpace
		}
		return nil
	})
	c := startOn(t, disk, t.TempDir(), map[string]string{"cleanResourceInterval": "100"})
	if _, err := c.send(victim, 0, []byte("before")); err != nil {
		t.Fatal(err)
	}
	readAll(c) // makes the group
	full.Store(true)
	p := dial(t, c.addr())
	const n = 100
	for i := range int32(n) {
		p.write(request(header.Binary, int32(code.SendMessage), i, sendHeader(victim, 1, ""), []byte("while the disk is full")))
	}
	readAll(c)
	until(t, "sends are refused", func() bool {
		return code.Response(c.must(code.SendMessage, sendHeader(victim, 2, ""), []byte("x")).Code) == code.ServiceNotAvailable
	})
	full.Store(false)
	until(t, "sends are taken", func() bool {
		_, err := c.send(victim, 0, []byte("after"))
		return err == nil
	})
	acknowledged := int64(0)
	for range n { // each was answered, or is now
		cmd := p.mustReply()
		switch got := code.Response(cmd.Code); got {
		case code.Success:
			acknowledged++
		case code.ServiceNotAvailable, code.SystemBusy, code.FlushDiskTimeout:
		default:
			t.Errorf("answered %s %q", got, cmd.Remark)
		}
	}
	if stored := maxOffset(c, victim, 1); stored < acknowledged {
		t.Errorf("%d messages were acknowledged, %d are stored", acknowledged, stored)
	}
	c.checkAll()
}

// TestFullPartition does the same on a small partition of its own, where every file of the store competes for the last bytes.
func TestFullPartition(t *testing.T) {
	dir := t.TempDir()
	const size = 64 << 20
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("a partition cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	c := startOn(t, vfs.OS{}, dir, map[string]string{"mappedFileSizeCommitLog": "4194304", "maxMessageSize": "262144", "cleanResourceInterval": "100",
		"diskMaxUsedSpaceRatio": "100", "diskSpaceCleanForciblyRatio": "100", "diskSpaceWarningLevelRatio": "100", "mappedFileSizeConsumeQueue": "200000"})
	if _, err := c.send(victim, 0, []byte("before")); err != nil {
		t.Fatal(err)
	}
	c.must(code.PullMessage, pullHeader(victim, 0, 0), nil)
	hog := filepath.Join(dir, "hog")
	eat(t, hog)
	if got := fill(c, victim, make([]byte, 100_000)); got != code.ServiceNotAvailable {
		t.Errorf("a full partition was answered %s", got)
	}
	for range 50 { // while everything that wants to write cannot
		readAll(c)
		c.must(code.SendMessage, sendHeader(victim, 1, ""), []byte("x"))
		c.must(code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: victim, QueueID: header.Some(int32(0)), CommitOffset: header.Some(int64(1))}, nil)
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	until(t, "sends are taken", func() bool {
		_, err := c.send(victim, 0, make([]byte, 250_000))
		return err == nil
	})
	for range 50 {
		if _, err := c.send(victim, 0, make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range c.sent.all() { // a restart would need twice the room for nothing
		if err := c.read(r); err != nil {
			t.Fatal(err)
		}
	}
	c.restart()
	readAll(c)
}

// eat takes the last byte of a partition.
func eat(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := 1 << 20; n > 0; n /= 2 {
		for err == nil {
			_, err = f.Write(make([]byte, n))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
}
