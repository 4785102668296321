package robust

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// requestHeaders are the headers of what a broker or a name server may serve.
var requestHeaders = map[code.Request]header.Appender{
	code.SendMessage: &header.SendMessageRequest{}, code.SendMessageV2: &header.SendMessageRequestV2{}, code.SendBatchMessage: &header.SendMessageRequestV2{},
	code.SendReplyMessage: &header.SendMessageRequest{}, code.SendReplyMessageV2: &header.SendMessageRequestV2{},
	code.ConsumerSendMsgBack: &header.ConsumerSendMsgBackRequest{}, code.EndTransaction: &header.EndTransactionRequest{}, code.RecallMessage: &header.RecallMessageRequest{},
	code.ResumeCheckHalfMessage: &header.ResumeCheckHalfMessageRequest{},
	code.PullMessage:            &header.PullMessageRequest{}, code.LitePullMessage: &header.PullMessageRequest{},
	code.QueryConsumerOffset: &header.QueryConsumerOffsetRequest{}, code.UpdateConsumerOffset: &header.UpdateConsumerOffsetRequest{},
	code.GetMaxOffset: &header.GetMaxOffsetRequest{}, code.GetMinOffset: &header.GetMinOffsetRequest{}, code.SearchOffsetByTimestamp: &header.SearchOffsetRequest{},
	code.GetEarliestMsgStoreTime: &header.GetEarliestMsgStoretimeRequest{},
	code.PopMessage:              &header.PopMessageRequest{}, code.PeekMessage: &header.PeekMessageRequest{}, code.AckMessage: &header.AckMessageRequest{},
	code.ChangeMessageInvisibleTime: &header.ChangeInvisibleTimeRequest{}, code.Notification: &header.NotificationRequest{}, code.PollingInfo: &header.PollingInfoRequest{},
	code.PopLiteMessage: &header.PopLiteMessageRequest{},
	code.HeartBeat:      &header.HeartbeatRequest{}, code.UnregisterClient: &header.UnregisterClientRequest{}, code.GetConsumerListByGroup: &header.GetConsumerListByGroupRequest{},
	code.LockBatchMQ: &header.LockBatchMqRequest{}, code.UnlockBatchMQ: &header.UnlockBatchMqRequest{},
	code.InvokeBrokerToResetOffset: &header.ResetOffsetRequest{}, code.InvokeBrokerToGetConsumerStatus: &header.GetConsumerStatusRequest{},
	code.GetConsumerRunningInfo: &header.GetConsumerRunningInfoRequest{}, code.ConsumeMessageDirectly: &header.ConsumeMessageDirectlyResultRequest{},
	code.GetConsumerConnectionList: &header.GetConsumerConnectionListRequest{}, code.GetProducerConnectionList: &header.GetProducerConnectionListRequest{},
	code.QueryMessage: &header.QueryMessageRequest{}, code.ViewMessageByID: &header.ViewMessageRequest{}, code.QueryConsumeQueue: &header.QueryConsumeQueueRequest{},
	code.QueryCorrectionOffset: &header.QueryCorrectionOffset{}, code.QueryConsumeTimeSpan: &header.QueryConsumeTimeSpanRequest{},
	code.QueryTopicConsumeByWho: &header.QueryTopicConsumeByWhoRequest{}, code.QueryTopicsByConsumer: &header.QueryTopicsByConsumerRequest{},
	code.QuerySubscriptionByConsumer: &header.QuerySubscriptionByConsumerRequest{}, code.GetTopicStatsInfo: &header.GetTopicStatsInfoRequest{},
	code.GetConsumeStats: &header.GetConsumeStatsRequest{}, code.GetBrokerConsumeStats: &header.GetConsumeStatsInBroker{}, code.ViewBrokerStatsData: &header.ViewBrokerStatsDataRequest{},
	code.CloneGroupOffset: &header.CloneGroupOffsetRequest{}, code.UpdateAndCreateTopic: &header.CreateTopicRequest{}, code.UpdateAndCreateStaticTopic: &header.CreateTopicRequest{},
	code.UpdateAndCreateTopicList: &header.CreateTopicListRequest{}, code.DeleteTopicInBroker: &header.DeleteTopicRequest{}, code.GetAllTopicConfig: &header.GetAllTopicConfigRequest{},
	code.GetTopicConfig: &header.GetTopicConfigRequest{}, code.GetAllSubscriptionGroupConfig: &header.GetAllSubscriptionGroupRequest{},
	code.GetSubscriptionGroupConfig: &header.GetSubscriptionGroupConfigRequest{}, code.DeleteSubscriptionGroup: &header.DeleteSubscriptionGroupRequest{},
	code.UpdateAndGetGroupForbidden: &header.UpdateGroupForbiddenRequest{}, code.SetCommitLogReadMode: &header.SetCommitLogReadModeRequest{},
	code.SwitchTimerEngine: &header.SwitchTimerEngineRequest{}, code.CheckRocksDBCQWriteProgress: &header.CheckRocksdbCqWriteProgressRequest{},
	code.ExportRocksDBConfigToJSON: &header.ExportRocksDBConfigToJsonRequest{}, code.ExchangeBrokerHAInfo: &header.ExchangeHAInfoRequest{},
	code.ResetMasterFlushOffset: &header.ResetMasterFlushOffset{}, code.NotifyMinBrokerIDChange: &header.NotifyMinBrokerIdChangeRequest{},
	code.NotifyBrokerRoleChanged: &header.NotifyBrokerRoleChangedRequest{}, code.HandOver: &header.HandOverRequest{},
	code.RegisterBroker: &header.RegisterBrokerRequest{}, code.UnregisterBroker: &header.UnRegisterBrokerRequest{}, code.BrokerHeartbeat: &header.BrokerHeartbeatRequest{},
	code.QueryDataVersion: &header.QueryDataVersionRequest{}, code.GetRouteInfoByTopic: &header.GetRouteInfoRequest{}, code.GetBrokerMemberGroup: &header.GetBrokerMemberGroupRequest{},
	code.RegisterTopicInNamesrv: &header.RegisterTopicRequest{}, code.DeleteTopicInNamesrv: &header.DeleteTopicFromNamesrvRequest{},
	code.WipeWritePermOfBroker: &header.WipeWritePermOfBrokerRequest{}, code.AddWritePermOfBroker: &header.AddWritePermOfBrokerRequest{}, code.GetTopicsByCluster: &header.GetTopicsByClusterRequest{},
	code.PutKVConfig: &header.PutKVConfigRequest{}, code.GetKVConfig: &header.GetKVConfigRequest{}, code.DeleteKVConfig: &header.DeleteKVConfigRequest{},
	code.GetKVListByNamespace: &header.GetKVListByNamespaceRequest{},
	code.AuthCreateUser:       &header.CreateUserRequest{}, code.AuthUpdateUser: &header.UpdateUserRequest{}, code.AuthDeleteUser: &header.DeleteUserRequest{}, code.AuthGetUser: &header.GetUserRequest{},
	code.AuthListUser: &header.ListUsersRequest{}, code.AuthCreateACL: &header.CreateAclRequest{}, code.AuthUpdateACL: &header.UpdateAclRequest{}, code.AuthDeleteACL: &header.DeleteAclRequest{},
	code.AuthGetACL: &header.GetAclRequest{}, code.AuthListACL: &header.ListAclsRequest{},
}

// bareRequests have no header.
var bareRequests = []code.Request{code.CheckClientConfig, code.GetAllProducerInfo, code.GetAllConsumerOffset, code.GetAllDelayOffset, code.GetSystemTopicListFromBroker,
	code.UpdateBrokerConfig, code.GetBrokerConfig, code.GetBrokerRuntimeInfo, code.GetTimerCheckPoint, code.GetTimerMetrics, code.UpdateAndCreateSubscriptionGroup,
	code.UpdateAndCreateSubscriptionGroupList, code.QueryAssignment, code.SetMessageRequestMode, code.GetAllMessageRequestMode, code.CleanExpiredConsumeQueue, code.CleanUnusedTopic,
	code.DeleteExpiredCommitLog, code.UpdateColdDataFlowCtrConfig, code.RemoveColdDataFlowCtrConfig, code.GetColdDataFlowCtrInfo, code.GetBrokerHAStatus, code.GetBrokerEpochCache,
	code.PopRollback, code.BatchAckMessage, code.GetBrokerClusterInfo, code.UpdateNamesrvConfig, code.GetNamesrvConfig, code.GetAllTopicListFromNameserver,
	code.GetSystemTopicListFromNS, code.GetUnitTopicList, code.GetHasUnitSubTopicList, code.GetHasUnitSubUnunitTopicList}

// field is one ext field of a header.
type field struct {
	key     string
	integer bool // int32 or int64, Opt or not
	text    bool
}

// fieldsOf lists the ext fields of a header by its tags.
func fieldsOf(t reflect.Type) (list []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			list = append(list, fieldsOf(f.Type)...)
			continue
		}
		key, _, _ := strings.Cut(f.Tag.Get("h"), ",")
		kind := f.Type.Kind()
		if kind == reflect.Struct { // Opt
			kind = f.Type.Field(0).Type.Kind()
		}
		list = append(list, field{key, kind == reflect.Int32 || kind == reflect.Int64, kind == reflect.String})
	}
	return list
}

func headerFields(rc code.Request) []field {
	if h := requestHeaders[rc]; h != nil {
		return fieldsOf(reflect.TypeOf(h).Elem())
	}
	return nil
}

// served asks a server which codes it serves, and insists that this file knows their headers.
func served(t *testing.T, addr string) []code.Request {
	t.Helper()
	var codes []int32
	for rc := range int32(6000) {
		codes = append(codes, rc)
	}
	for rc := int32(200_000); rc < 200_200; rc++ {
		codes = append(codes, rc)
	}
	var list []code.Request
	for _, rc := range askAll(t, dial(t, addr), header.JSON, codes) {
		r := code.Request(rc)
		if requestHeaders[r] == nil && !slices.Contains(bareRequests, r) {
			t.Errorf("%s is served and in no table here: add its header", r)
		}
		list = append(list, r)
	}
	return list
}

// TestWrongTypesInFields puts what is no number into every number of every header: the answer is an error, never a success.
func TestWrongTypesInFields(t *testing.T) {
	c := start(t, nil)
	bad := []string{"abc", "1.5", "0x10", "9223372036854775808", "-9223372036854775809", "1e3", "NaN", " 1", "1 ", "--1", "\x00", "\xff", "{}", "null", "true"}
	for server, addr := range map[string]string{"broker": c.addr(), "name server": c.names.Addr().String()} {
		p := dial(t, addr)
		checked := 0
		for _, rc := range served(t, addr) {
			for _, f := range headerFields(rc) {
				for i, val := range bad {
					if !f.integer || val == "null" {
						continue
					}
					cmd := p.ask(both[i%2], int32(rc), fields{f.key, val}, []byte("{}"))
					if got := code.Response(cmd.Code); got != code.InvalidParameter && got != code.SystemError {
						t.Errorf("%s: %s with %s=%q was answered %s %.80q", server, rc, f.key, val, got, cmd.Remark)
					}
					checked++
				}
			}
		}
		if checked < 100 {
			t.Errorf("%s: only %d fields were checked", server, checked)
		}
	}
}

// evil are values that have broken servers.
func evil(rnd *rand.Rand) string {
	fixed := []string{"", "0", "-1", "1", "32", "2147483647", "-2147483648", "2147483648", "9223372036854775807", "-9223372036854775808", "true", "false", "TRUE", "null", "abc",
		"\x00", "\xff\xfe\xfd", "../../../../etc/passwd", "a/b", "a\\b", "%RETRY%", "%DLQ%", "%RETRY%readers", "rmq_sys_castor_state", "SCHEDULE_TOPIC_XXXX", victim, group,
		"RMQ_SYS_TRANS_HALF_TOPIC", "TBW102", "*", "a||b", "a = 1", "((((", "+message.type=NORMAL", "a\x01b\x02", "DELAY\x013\x02", "TRAN_MSG\x01true\x02", "{}", "[]", "SQL92", "TAG",
		`{"topic":"x"}`, "%s%d%n", "$(reboot)", "'; DROP TABLE x", "\u2028", "😀"}
	if n := rnd.IntN(len(fixed) + 2); n < len(fixed) {
		return fixed[n]
	} else if n == len(fixed) {
		return strings.Repeat("x", rnd.IntN(70_000))
	}
	b := make([]byte, rnd.IntN(40))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return string(b)
}

// evilBody are bodies that are not what a code expects.
func evilBody(rnd *rand.Rand) []byte {
	fixed := []string{"", "null", "{}", "[]", "[[]]", "1", `"x"`, "{", "[{}]", "\x00", "\xff\xff", `{"clientID":"c"}`, `{"clientID":5,"consumerDataSet":{}}`, `{"topicConfigList":[null]}`,
		`{"groupConfigList":[{}]}`, `{"mqSet":[null,{"topic":null}],"consumerGroup":"g","clientId":"c"}`, `{"mqSet":5}`, `{"$ref":"$"}`, "a=b\nc=d", "=\n=\n", `{"a":` + strings.Repeat("[", 2000),
		`{"consumerDataSet":[{"groupName":"readers","subscriptionDataSet":[{"topic":"Victim","expressionType":"SQL92","subString":"a ="}]}],"clientID":"x"}`}
	if n := rnd.IntN(len(fixed) + 1); n < len(fixed) {
		return []byte(fixed[n])
	}
	b := make([]byte, rnd.IntN(4000))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// spares are codes whose success ends or changes what the test needs.
var spares = []code.Request{code.UpdateBrokerConfig, code.UpdateNamesrvConfig}

// parked are codes whose answer may come later than the test, or not at all.
var parked = []code.Request{code.PullMessage, code.LitePullMessage, code.EndTransaction, code.PopMessage, code.Notification, code.PopLiteMessage}

// TestFuzzedFields sends every code with random fields and bodies: each request is answered, and nobody else notices.
func TestFuzzedFields(t *testing.T) {
	c := start(t, map[string]string{"registerNameServerPeriod": "1000"})
	if _, err := c.send("Kept", 0, []byte("x")); err != nil { // a topic that no random field names
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	codes := served(t, c.addr())
	c.while(20, func() {
		for _, rc := range codes {
			if !slices.Contains(spares, rc) {
				fuzzCode(t, rnd, c.addr(), rc, size(100, 25))
			}
		}
	})
	codes = served(t, c.names.Addr().String())
	for _, rc := range codes {
		if !slices.Contains(spares, rc) {
			fuzzCode(t, rnd, c.names.Addr().String(), rc, size(100, 25))
		}
	}
	c.checkAll()
}

func fuzzCode(t *testing.T, rnd *rand.Rand, addr string, rc code.Request, n int) {
	t.Helper()
	p := dial(t, addr)
	defer p.close()
	known := headerFields(rc)
	expect := map[int32]bool{}
	var all []byte
	for i := range int32(n) {
		var f fields
		for _, k := range known {
			if rnd.IntN(8) == 0 {
				continue
			}
			val := evil(rnd)
			if k.integer && rnd.IntN(4) > 0 {
				val = fmt.Sprint(rnd.IntN(5) - 1)
			}
			f = append(f, k.key, val)
		}
		f = append(f, "unknown"+evil(rnd)[:0], evil(rnd))
		all = append(all, request(both[rnd.IntN(2)], int32(rc), i, f, evilBody(rnd))...)
		expect[i] = !slices.Contains(parked, rc)
	}
	all = append(all, request(header.JSON, 9999, int32(n), nil, nil)...)
	expect[int32(n)] = true
	go p.write(all)
	for len(expect) > 0 {
		cmd, err := p.reply()
		if err != nil {
			t.Errorf("%s: %v, %d answers are missing", rc, err, len(expect))
			return
		}
		if !cmd.IsResponse() {
			continue
		}
		if _, ok := expect[cmd.Opaque]; !ok {
			t.Errorf("%s: opaque %d was answered twice", rc, cmd.Opaque)
			return
		}
		if len(cmd.Remark) > 4096 {
			t.Errorf("%s: a remark of %d bytes: %.60q", rc, len(cmd.Remark), cmd.Remark)
		}
		delete(expect, cmd.Opaque)
		if !slices.Contains(slices.Collect(maps.Values(expect)), true) {
			return
		}
	}
}

// TestHeaderBombs: headers that are cheap to send and dear to read.
func TestHeaderBombs(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	many := func(n int) (f fields) {
		for i := range n {
			f = append(f, fmt.Sprintf("k%d", i), "")
		}
		return f
	}
	same := func(n int, last string) (f fields) {
		for range n {
			f = append(f, "topic", "x")
		}
		return append(f, "topic", last, "queueId", "0")
	}
	before := heap()
	c.while(20, func() {
		for _, enc := range both {
			p := dial(t, c.addr())
			if cmd := p.ask(enc, int32(code.GetMaxOffset), same(1000, victim), nil); cmd.Code != 0 || string(mustField(t, cmd, "offset")) != "1" {
				t.Errorf("of a key that comes a thousand times the last value counts: %d %q", cmd.Code, cmd.Remark)
			}
			if cmd := p.ask(enc, 9999, many(1000), nil); code.Response(cmd.Code) != code.RequestCodeNotSupported {
				t.Errorf("1000 fields: %d", cmd.Code)
			}
			if cmd := p.ask(enc, int32(code.GetMaxOffset), fields{"topic", strings.Repeat("x", 8<<20)}, nil); cmd.Code != 0 {
				t.Errorf("a topic of 8 MiB that nobody has: %d %.80q", cmd.Code, cmd.Remark)
			}
			p.write(request(enc, 9999, 1, many(100_000), nil))
			p.mustClose("100,000 fields")
			p.close()
		}
		p := dial(t, c.addr())
		deep := strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20)
		p.write(rawFrame(0, []byte(`{"code":9999,"opaque":1,"x":`+deep+`}`), nil))
		p.mustReply()
		p.write(rawFrame(0, []byte(`{"code":9999,"opaque":1,"extFields":{"x":`+deep+`}}`), nil))
		p.mustReply()
		p.write(rawFrame(0, append(append([]byte(`{"code":9999,"opaque":1,"remark":"`), bytes.Repeat([]byte(`\u0041`), 2<<20)...), `"}`...), nil))
		p.mustReply()
		p.close()
	})
	grew(t, "after header bombs", before, 16<<20)
	c.checkAll()
}

func mustField(t *testing.T, cmd interface{ Ext(string) (string, bool) }, key string) string {
	t.Helper()
	val, ok := cmd.Ext(key)
	if !ok {
		t.Errorf("no field %s", key)
	}
	return val
}

// TestLongNamesInRemarks: an answer repeats little of what was sent.
func TestLongNamesInRemarks(t *testing.T) {
	c := start(t, nil)
	long := strings.Repeat("x", size(1<<20, 64<<10))
	p := dial(t, c.addr())
	for _, rc := range served(t, c.addr()) {
		var f fields
		for _, k := range headerFields(rc) {
			switch {
			case k.text:
				f = append(f, k.key, long)
			case k.integer:
				f = append(f, k.key, "0")
			}
		}
		cmd := p.ask(header.Binary, int32(rc), f, []byte("{}"))
		if n := len(cmd.Remark); n > 4096 {
			t.Errorf("%s repeats a long name in a remark of %d bytes: %.100q", rc, n, cmd.Remark)
		}
	}
}
