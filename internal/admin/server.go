package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// answerTimeout is how long a server has for an answer (DefaultMQAdminExt); statistics of groups get statsTimeout.
const (
	answerTimeout = 5 * time.Second
	statsTimeout  = 3 * answerTimeout
)

// answerError is a refusal, in the words of RocketMQ's tool: scripts look for the code.
type answerError struct {
	code   code.Response
	remark string
	addr   string // of a broker; empty for name servers
}

func (e *answerError) Error() string {
	s := fmt.Sprintf("CODE: %d  DESC: %s", e.code, oneLine(e.remark))
	if e.addr != "" {
		s += " BROKER: " + e.addr
	}
	return s
}

// codeOf returns the response code that an error holds, 0 if it holds none.
func codeOf(err error) code.Response {
	var e *answerError
	if errors.As(err, &e) {
		return e.code
	}
	return 0
}

// call sends a request to a broker and waits for a good answer.
func (t *tool) call(addr string, rc code.Request, h header.Appender, body []byte) (*remoting.Reply, error) {
	return t.callFor(answerTimeout, addr, rc, h, body)
}

func (t *tool) callFor(d time.Duration, addr string, rc code.Request, h header.Appender, body []byte) (*remoting.Reply, error) {
	r, err := t.exchange(d, addr, rc, h, body)
	if err != nil {
		return nil, err
	}
	return r, refusal(r, addr)
}

// callServer asks one name server.
func (t *tool) callServer(addr string, rc code.Request, h header.Appender, body []byte) (*remoting.Reply, error) {
	r, err := t.exchange(answerTimeout, addr, rc, h, body)
	if err != nil {
		return nil, fmt.Errorf("name server: %w", err)
	}
	return r, refusal(r, "")
}

// refusal is the error that an answer means.
func refusal(r *remoting.Reply, broker string) error {
	if code.Response(r.Code) == code.Success {
		return nil
	}
	return &answerError{code.Response(r.Code), string(r.Remark), broker}
}

// exchange sends a request and waits for any answer.
func (t *tool) exchange(d time.Duration, addr string, rc code.Request, h header.Appender, body []byte) (*remoting.Reply, error) {
	ctx, cancel := context.WithTimeout(t.ctx, d)
	defer cancel()
	return t.client.Call(ctx, addr, rc, h, body)
}

// lookup asks one name server after the other until one can be reached.
func (t *tool) lookup(rc code.Request, h header.Appender) (r *remoting.Reply, err error) {
	err = errNoServers
	for _, addr := range t.servers {
		if r, err = t.callServer(addr, rc, h, nil); r != nil {
			break
		}
	}
	return r, err
}

var errNoServers = errors.New("no name server is known: give -n HOST:PORT or set NAMESRV_ADDR")

// onServers runs f for every name server.
func (t *tool) onServers(f func(addr string) error) error {
	if len(t.servers) == 0 {
		return errNoServers
	}
	return onEach(t.servers, f)
}

// onEach runs f for every target, also after one has failed, and tells which did.
func onEach[T any](targets []T, f func(T) error) error {
	var failed []error
	for _, target := range targets {
		if err := f(target); err != nil {
			failed = append(failed, err)
		}
	}
	if len(targets) == 1 || len(failed) == 0 {
		return errors.Join(failed...)
	}
	var words []string
	for _, err := range failed {
		words = append(words, oneLine(err.Error()))
	}
	return fmt.Errorf("failed on %d of %d servers: %s", len(failed), len(targets), strings.Join(words, "; "))
}

// decoded reads the body of an answer.
func decoded[T any](r *remoting.Reply, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	v := new(T)
	if len(r.Body) == 0 {
		return v, nil
	}
	if err := fastjson.Unmarshal(r.Body, v); err != nil {
		return nil, fmt.Errorf("malformed answer: %w", err)
	}
	return v, nil
}

// into reads the header of an answer: into(&h)(t.call(…)).
func into(h header.Setter) func(*remoting.Reply, error) error {
	return func(r *remoting.Reply, err error) error {
		if err != nil {
			return err
		}
		return r.Decode(h)
	}
}

// replica is one broker process.
type replica struct {
	cluster, name string
	id            int64
	addr          string
}

// replicas lists the brokers of a cluster, or of all, by cluster, name and id.
func replicas(info *body.ClusterInfo, cluster string) (list []replica) {
	for c, names := range info.ClusterAddrTable {
		if cluster != "" && c != cluster {
			continue
		}
		for _, name := range names {
			for id, addr := range info.BrokerAddrTable[name].BrokerAddrs {
				list = append(list, replica{c, name, id, addr})
			}
		}
	}
	slices.SortFunc(list, func(a, b replica) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id))
	})
	return list
}

func masters(list []replica) []replica {
	return slices.DeleteFunc(slices.Clone(list), func(r replica) bool { return r.id != 0 })
}

// clusterInfo asks for all clusters and brokers.
func (t *tool) clusterInfo() (*body.ClusterInfo, error) {
	return decoded[body.ClusterInfo](t.lookup(code.GetBrokerClusterInfo, nil))
}

// members lists the brokers of a cluster that must be there.
func (t *tool) members(cluster string) ([]replica, error) {
	info, err := t.clusterInfo()
	if err != nil {
		return nil, err
	}
	list := replicas(info, cluster)
	if len(list) == 0 {
		return nil, fmt.Errorf("the name server knows no broker of a cluster %q, but the clusters %q", cluster, slices.Sorted(maps.Keys(info.ClusterAddrTable)))
	}
	return list, nil
}

// targets are the brokers that a command is about: the one of -b, or the masters of -c.
func (t *tool) targets() ([]replica, error) {
	if t.given.has("b") {
		return []replica{{addr: t.given["b"]}}, nil
	}
	list, err := t.members(t.given["c"])
	if err != nil {
		return nil, err
	}
	if list = masters(list); len(list) == 0 {
		return nil, fmt.Errorf("the cluster %q has no master", t.given["c"])
	}
	return list, nil
}

// onTargets runs f for each of the targets.
func (t *tool) onTargets(f func(replica) error) error {
	list, err := t.targets()
	if err != nil {
		return err
	}
	return onEach(list, f)
}

// brokerAt finds the broker name of an address.
func (t *tool) brokerAt(addr string) (string, error) {
	info, err := t.clusterInfo()
	if err != nil {
		return "", err
	}
	for _, r := range replicas(info, "") {
		if r.addr == addr {
			return r.name, nil
		}
	}
	return "", fmt.Errorf("the name server knows no broker at %s", addr)
}

// route asks who has a topic.
func (t *tool) route(topic string) (*body.TopicRouteData, error) {
	return decoded[body.TopicRouteData](t.lookup(code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: topic, AcceptStandardJSONOnly: header.Some(true)}))
}

// routed lists one broker of each broker name in a route: the master, or the replica with the lowest id.
func routed(d *body.TopicRouteData) (list []replica) {
	for _, b := range d.BrokerDatas {
		if len(b.BrokerAddrs) == 0 {
			continue
		}
		id := slices.Min(slices.Collect(maps.Keys(b.BrokerAddrs)))
		list = append(list, replica{b.Cluster, b.BrokerName, id, b.BrokerAddrs[id]})
	}
	slices.SortFunc(list, func(a, b replica) int { return cmp.Compare(a.name, b.name) })
	return list
}

// routeOf lists the brokers of a topic, or those of the route that was given instead.
func (t *tool) routeOf(topic string) ([]replica, error) {
	d, err := t.route(t.given.or(byRoute, topic))
	if err != nil {
		return nil, err
	}
	return routed(d), nil
}
