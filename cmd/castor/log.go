package main

import (
	"time"

	"go.uber.org/zap/zapcore"
)

// isoTime writes local time with milliseconds.
func isoTime(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
	enc.AppendString(t.Format("2006-01-02 15:04:05.000"))
}
