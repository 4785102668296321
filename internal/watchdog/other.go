//go:build !linux

package watchdog

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
)

// Run says that there is no watchdog on this system.
func Run(_ context.Context, _ string, _ time.Duration, _ func() bool, log *zap.Logger) error {
	log.Warn("there is no watchdog on this system: a broker that hangs keeps its clients waiting")
	return nil
}

// Main refuses to be the child.
func Main([]string) error { return errors.New("there is no watchdog on this system") }
