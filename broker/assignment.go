package broker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// assigner distributes the queues of topics, on all brokers, over the members of groups (QueryAssignmentProcessor). It remembers
// the routes for a while: every member of a group asks every 20 seconds.
type assigner struct {
	b *Broker

	mu     sync.Mutex
	routes map[string]cachedRoute
}

type cachedRoute struct {
	queues []body.MessageQueue // sorted; immutable
	until  int64               // ms
}

const (
	routeTTL    = 30_000 // ms; loadBalancePollNameServerInterval
	routeWait   = time.Second
	maxRoutes   = 10_000
	maxAssigned = 100_000 // queues of one topic
)

func newAssigner(b *Broker) *assigner { return &assigner{b: b, routes: map[string]cachedRoute{}} }

// handleQueryAssignment serves QUERY_ASSIGNMENT.
func (b *Broker) handleQueryAssignment(r *remoting.Request) error {
	var q body.QueryAssignmentRequestBody
	if err := decodeBody(r, &q); err != nil {
		return err
	}
	if err := validateTopic(q.Topic); err != nil {
		return err // the routes of all topics that are asked for are remembered
	}
	if b.pops(q.Topic, q.ConsumerGroup) {
		return errNoPop
	}
	queues, err := b.assigner.queues(q.Topic)
	if err != nil {
		return err
	}
	if q.MessageModel != body.Broadcasting && b.conf.Load().ServerLoadBalancerEnable {
		var ids []string
		for _, m := range b.clients.membersOf(q.ConsumerGroup) {
			ids = append(ids, m.id)
		}
		slices.Sort(ids)
		queues = allocate(q.StrategyName, q.ClientID, slices.Compact(ids), queues)
	}
	var answer body.QueryAssignmentResponseBody
	for _, mq := range queues {
		answer.MessageQueueAssignments = append(answer.MessageQueueAssignments, body.MessageQueueAssignment{MessageQueue: mq, Mode: body.ModePull})
	}
	return r.OK(nil, fastjson.Marshal(&answer))
}

// pops tells whether a group has been set to POP for a topic. Retries are always pulled here.
func (b *Broker) pops(topic, group string) bool {
	if message.IsRetryTopic(topic) {
		return false
	}
	if mode, ok := b.store.State.RequestMode(topic, group); ok {
		return mode.Mode == body.ModePop
	}
	return b.conf.Load().DefaultMessageRequestMode == string(body.ModePop)
}

// allocate returns a member's part of the queues: a run of them (AVG) or every n-th (AVG_BY_CIRCLE). Nothing for who is no member
// and for strategies that only clients know.
func allocate(strategy, id string, ids []string, queues []body.MessageQueue) (mine []body.MessageQueue) {
	i, member := slices.BinarySearch(ids, id)
	if !member {
		return nil
	}
	n, members := len(queues), len(ids)
	switch strategy {
	case "AVG":
		more := min(i, n%members) // members before this one that have one queue more
		from := i*(n/members) + more
		to := from + n/members
		if i < n%members {
			to++
		}
		return queues[from:to]
	case "AVG_BY_CIRCLE":
		for ; i < n; i += members {
			mine = append(mine, queues[i])
		}
	}
	return mine
}

// queues returns the queues of a topic that can be read, in the order that clients agree on.
func (a *assigner) queues(topic string) ([]body.MessageQueue, error) {
	now := a.b.clk.NowMs()
	a.mu.Lock()
	route, ok := a.routes[topic]
	a.mu.Unlock()
	if ok && now < route.until {
		return route.queues, nil
	}
	queues, err := a.ask(topic)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(queues, func(x, y body.MessageQueue) int {
		return cmp.Or(strings.Compare(x.BrokerName, y.BrokerName), cmp.Compare(x.QueueID, y.QueueID))
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.routes) >= maxRoutes {
		clear(a.routes)
	}
	a.routes[strings.Clone(topic)] = cachedRoute{queues, now + routeTTL}
	return queues, nil
}

// ask asks the name servers, one after the other, for the route of a topic. A broker without name servers has all queues itself.
func (a *assigner) ask(topic string) ([]body.MessageQueue, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*routeWait)
	defer cancel()
	addrs := a.b.names.addrs()
	var errs []error
	for _, addr := range addrs {
		queues, err := a.askOne(ctx, addr, topic)
		if err == nil {
			return queues, nil
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, code.New(code.SystemError, "the queues of topic %s are not known: %v", shown(topic), err)
	}
	if c := a.b.topics.get(topic); c != nil && c.Perm&permRead != 0 {
		return readQueues(nil, a.b.conf.Load().BrokerName, topic, c.ReadQueueNums), nil
	}
	return nil, nil
}

func (a *assigner) askOne(ctx context.Context, addr, topic string) (queues []body.MessageQueue, err error) {
	ctx, cancel := context.WithTimeout(ctx, routeWait)
	defer cancel()
	reply, err := a.b.client.Call(ctx, addr, code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: topic, AcceptStandardJSONOnly: header.Some(true)}, nil)
	switch {
	case err != nil:
		return nil, err
	case code.Response(reply.Code) == code.TopicNotExist:
		return nil, nil
	case reply.Err() != nil:
		return nil, reply.Err()
	}
	var route body.TopicRouteData
	if err := fastjson.Unmarshal(reply.Body, &route); err != nil {
		return nil, err
	}
	for _, q := range route.QueueDatas {
		if q.Perm&permRead != 0 && len(queues)+int(max(q.ReadQueueNums, 0)) <= maxAssigned {
			queues = readQueues(queues, q.BrokerName, topic, q.ReadQueueNums)
		}
	}
	return queues, nil
}

func readQueues(queues []body.MessageQueue, broker, topic string, n int32) []body.MessageQueue {
	for id := range n {
		queues = append(queues, body.MessageQueue{Topic: topic, BrokerName: broker, QueueID: id})
	}
	return queues
}
