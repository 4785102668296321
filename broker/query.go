package broker

import (
	"slices"
	"strings"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store/state"
)

// Limits of one query by key.
const (
	maxQueryLooks = 4096    // records read; most are what was asked for, the others have keys of the same hash
	maxQueryBytes = 8 << 20 // of messages in an answer
)

func notFound(r *remoting.Request) error {
	r.Reply(code.QueryNotFound, "can not find message, maybe time range not correct", &header.QueryMessageResponse{}, nil)
	return nil
}

// handleQueryMessage serves QUERY_MESSAGE in a lane (QueryMessageProcessor). The index holds only hashes and seconds: each record
// is compared with the topic, the key and the time that were asked for, which Java leaves to the client.
func (b *Broker) handleQueryMessage(r *remoting.Request, h *header.QueryMessageRequest) error {
	if b.isEcho(r, h) {
		return notFound(r)
	}
	c := b.conf.Load()
	limit := int(h.MaxNum)
	if limit <= 0 || h.UniqueKeyQuery.Or(false) {
		limit = int(c.DefaultQueryMaxNum)
	}
	limit = min(limit, int(c.MaxMsgsNumBatch))
	var found [][]byte
	var err error
	size := 0
	if x := b.store.Index; x != nil {
		err = x.Query(h.Topic, h.Key, maxQueryLooks, h.BeginTimestamp, h.EndTimestamp, func(phy int64) bool {
			var v message.View
			if !b.record(phy, &v) || !asksFor(h, &v) {
				return true
			}
			if size += v.Size(); size > maxQueryBytes && len(found) > 0 {
				return false
			}
			found = append(found, v.Bytes())
			return len(found) < limit
		})
	}
	if len(found) == 0 {
		if err != nil {
			return err
		}
		return notFound(r)
	}
	slices.Reverse(found) // the index gives the newest first
	var resp header.QueryMessageResponse
	resp.IndexLastUpdateTimestamp, resp.IndexLastUpdatePhyoffset = b.store.Index.LastUpdate()
	return r.OK(&resp, slices.Concat(found...))
}

// asksFor tells whether a query means a record: one that has the key as its unique key or among its keys.
func asksFor(h *header.QueryMessageRequest, v *message.View) bool {
	if at := v.StoreTimestamp(); at < h.BeginTimestamp || at > h.EndTimestamp || string(v.Topic()) != h.Topic {
		return false
	}
	p := v.Properties()
	if string(p.Lookup(message.PropUniqueKey)) == h.Key {
		return true
	}
	has := false
	message.EachKey(p.Lookup(message.PropKeys), func(key []byte) { has = has || string(key) == h.Key })
	return has
}

// record reads a confirmed message, from disk if need be. ok is false if none starts at the offset.
func (b *Broker) record(offset int64, v *message.View) (ok bool) {
	if offset < 0 || offset >= b.store.Confirmed() {
		return false
	}
	_, err := b.store.Log.Record(offset, nil, v)
	return err == nil && !strings.HasPrefix(string(v.Topic()), state.InternalPrefix) && b.listed(v)
}

// listed tells whether a record is in its queue. One that is not may be the body of a message that somebody has made to look like a
// record at the place where it would come to lie.
func (b *Broker) listed(v *message.View) bool {
	q := b.store.Queues.Get(string(v.Topic()), v.QueueID())
	if q == nil {
		return false
	}
	u, err := q.At(v.QueueOffset())
	return err == nil && u.Phy == v.PhyOffset()
}

// handleViewMessage serves VIEW_MESSAGE_BY_ID in a lane.
func (b *Broker) handleViewMessage(r *remoting.Request, h *header.ViewMessageRequest) error {
	var v message.View
	if !b.record(h.Offset, &v) {
		return code.New(code.SystemError, "can not find message by the offset, %d", h.Offset)
	}
	return r.OK(nil, v.Bytes())
}
