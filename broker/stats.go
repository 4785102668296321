package broker

// stats counts what passes through the broker, by topic and group.
type stats struct{ b *Broker }

func newStats(b *Broker) *stats { return &stats{b: b} }

// pulled counts messages that a group got.
func (s *stats) pulled(group, topic string, count int) {}
