package commitlog

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/vfs"
)

// Write hands what has been appended to the kernel, with one call per segment, and lets readers see it. A full disk (ErrFull)
// keeps the bytes for the next call and refuses appends until then; any other failure poisons the log, since what is in the file
// is unknown.
func (l *Log) Write() error {
	if l.written.Load() == l.Appended() {
		return nil
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.Poisoned(); err != nil {
		return err
	}
	if l.stuck.Load() {
		if err := l.put(&l.held); err != nil {
			return err
		}
		l.held = batch{}
		l.stuck.Store(false)
		l.log.Info("the disk takes appends again")
	}
	l.mu.Lock()
	b := l.out
	l.out = l.idle
	l.mu.Unlock()
	if err := l.put(&b); err != nil {
		if errors.Is(err, ErrFull) {
			l.hold(b)
		}
		return err
	}
	if cap(b.buf) > keepBatch {
		b.buf = nil
	}
	l.mu.Lock()
	l.idle = batch{buf: b.buf[:0], pieces: b.pieces[:0]}
	l.mu.Unlock()
	return nil
}

// put writes a batch and publishes its end. Writing it once more does no harm.
func (l *Log) put(b *batch) error {
	at := 0
	for _, p := range b.pieces {
		l.begins(&l.writes)
		_, err := p.s.file.WriteAt(b.buf[at:at+p.n], p.at)
		l.writes.ends()
		if err != nil {
			err = fmt.Errorf("write %s: %w", p.s.path, err)
			if errors.Is(err, vfs.ErrNoSpace) {
				return fmt.Errorf("%w: %w", ErrFull, err)
			}
			return l.fail(err)
		}
		at += p.n
	}
	if b.end > 0 {
		l.written.Store(b.end)
	}
	return nil
}

// hold keeps a batch that the disk had no room for. The caller holds writing.
func (l *Log) hold(b batch) {
	l.held = b
	l.mu.Lock()
	l.idle = batch{}
	l.stuck.Store(true)
	l.mu.Unlock()
	l.log.Error("no room on the disk for what has been appended: free space; sends are refused until then", zap.String("dir", l.cfg.Dir), zap.Int("bytes", len(b.buf)))
}

// keepBatch is the largest buffer that is kept for the next batch.
const keepBatch = 4 << 20

// Appended is the end of what has been appended; it is written up to End.
func (l *Log) Appended() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// fail poisons the log with err and returns it.
func (l *Log) fail(err error) error {
	err = fmt.Errorf("%w: %w", ErrPoisoned, err)
	if l.poison.CompareAndSwap(nil, &err) {
		close(l.failed)
		l.log.Error("the commit log could not be written: this broker takes no more messages; check the disk, then restart", zap.Error(err))
	}
	return err
}
