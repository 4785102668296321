package broker

import (
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store/state"
)

// TestOffsetTableKeepsNothingBorrowed: the names of a request are overwritten by the next one.
func TestOffsetTableKeepsNothingBorrowed(t *testing.T) {
	table := offsetTable{}
	frame := []byte("gt")
	for offset := range int64(3) {
		copy(frame, "gt")
		table.put(offsetKey{unsafe.String(&frame[0], 1), unsafe.String(&frame[1], 1), 5}, offset)
		copy(frame, "xx")
	}
	got := map[offsetKey]int64{}
	for k, v := range table {
		got[k] = *v
	}
	if diff := cmp.Diff(map[offsetKey]int64{{"g", "t", 5}: 2}, got, cmp.AllowUnexported(offsetKey{})); diff != "" {
		t.Error(diff)
	}
}

// TestOffsetsSurviveARestart: what a consumer has committed and been told so is there again.
func TestOffsetsSurviveARestart(t *testing.T) {
	b := startBroker(t, nil)
	b.client.send("t", 0, "x")
	b.putGroup("g", func(*body.SubscriptionGroupConfig) {})
	commit := func(offset int64) {
		b.client.ok(code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: "g", Topic: "t", QueueID: header.Some[int32](0), CommitOffset: header.Some(offset)}, nil)
	}
	query := func() int64 {
		var resp header.QueryConsumerOffsetResponse
		if err := b.client.ok(code.QueryConsumerOffset, &header.QueryConsumerOffsetRequest{ConsumerGroup: "g", Topic: "t"}, nil).Decode(&resp); err != nil {
			t.Fatal(err)
		}
		return resp.Offset
	}
	for _, offset := range []int64{7, 3} { // backwards is allowed
		commit(offset)
		b.restart()
		if got := query(); got != offset {
			t.Errorf("committed %d, got %d", offset, got)
		}
	}
	// While a reset is pending, commits of a consumer that has not seen it are swallowed.
	if err := b.commit(state.ResetPut("g", "t", 0, 1), state.OffsetPut("g", "t", 0, 1)); err != nil {
		t.Fatal(err)
	}
	commit(9)
	if got := query(); got != 1 {
		t.Errorf("offset %d while a reset to 1 is pending", got)
	}
	if rc, _ := b.client.pull("g", "t", 0, 9); rc != code.PullOffsetMoved {
		t.Errorf("the pull is answered %s", rc)
	}
	b.until("the reset is taken", func() bool { _, pending := b.store.State.Reset("g", "t", 0); return !pending })
	commit(2)
	if got := query(); got != 2 {
		t.Errorf("offset %d after the reset", got)
	}
}

// TestCommitIsReadBack: a client commits one-way and asks at once, as Java's does when it puts an offset right.
func TestCommitIsReadBack(t *testing.T) {
	b := startBroker(t, nil)
	b.client.send("t", 0, "x")
	b.putGroup("g", func(*body.SubscriptionGroupConfig) {})
	query := func(p *peer) int64 {
		var resp header.QueryConsumerOffsetResponse
		if err := p.ok(code.QueryConsumerOffset, &header.QueryConsumerOffsetRequest{ConsumerGroup: "g", Topic: "t"}, nil).Decode(&resp); err != nil {
			t.Fatal(err)
		}
		return resp.Offset
	}
	commit := func(offset int64) {
		h := &header.UpdateConsumerOffsetRequest{ConsumerGroup: "g", Topic: "t", QueueID: header.Some[int32](0), CommitOffset: header.Some(offset)}
		if err := b.client.Oneway(t.Context(), b.Addr(), code.UpdateConsumerOffset, h, nil); err != nil {
			t.Fatal(err)
		}
	}
	other := b.connect()
	for n := range int64(300) {
		commit(n)
		if n%3 == 1 { // another commit while one is being written
			b.offsets.flush()
			commit(n + 1000)
			n += 1000
		}
		if got := query(b.client); got != n {
			t.Fatalf("committed %d, read %d", n, got)
		}
		if got := query(other); got != n {
			t.Fatalf("committed %d, another client reads %d", n, got)
		}
	}
}

// TestQueryWhileItsTopicGoes: a query that waits for a commit is answered whatever becomes of that.
func TestQueryWhileItsTopicGoes(t *testing.T) {
	b := startBroker(t, nil)
	b.putGroup("g", func(*body.SubscriptionGroupConfig) {})
	other := b.connect()
	for range 50 {
		b.client.send("t", 0, "x")
		h := &header.UpdateConsumerOffsetRequest{ConsumerGroup: "g", Topic: "t", QueueID: header.Some[int32](0), CommitOffset: header.Some[int64](5)}
		if err := b.client.Oneway(t.Context(), b.Addr(), code.UpdateConsumerOffset, h, nil); err != nil {
			t.Fatal(err)
		}
		deleted := make(chan error, 1)
		go func() {
			r, err := other.Call(t.Context(), b.Addr(), code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: "t"}, nil)
			if err == nil {
				err = r.Err()
			}
			deleted <- err
		}()
		r, err := b.client.Call(t.Context(), b.Addr(), code.QueryConsumerOffset, &header.QueryConsumerOffsetRequest{ConsumerGroup: "g", Topic: "t"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if rc := code.Response(r.Code); rc != code.Success && rc != code.QueryNotFound {
			t.Fatalf("the query is answered %s", rc)
		}
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
	}
}
