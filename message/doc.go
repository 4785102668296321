// Package message holds RocketMQ's message model: the CommitLog record in both versions, the property text, system flags,
// batches and message ids. It does no I/O and keeps no state.
//
// A [Draft] is what is about to be appended; a [View] reads a record where it lies. Byte layouts are those of Java's
// MessageExtEncoder and MessageDecoder; all integers are big-endian.
package message
