package body

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/fastjson"
)

// wireBody is one row of testdata/wire.txt: bodies that Apache RocketMQ 5.5.0 sent, one a line, with the number of the
// captured exchange, code, name and side, separated by tabs.
type wireBody struct {
	code, name, side string
	text             []byte
}

func wireBodies(t testing.TB) []wireBody {
	t.Helper()
	data, err := os.ReadFile("testdata/wire.txt")
	if err != nil {
		t.Fatal(err)
	}
	var bodies []wireBody
	for line := range strings.Lines(string(data)) {
		cells := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 5)
		bodies = append(bodies, wireBody{cells[1], cells[2], cells[3], []byte(cells[4])})
	}
	return bodies
}

// wireTypes tells what is in the body of a code's request or response.
var wireTypes = map[string]reflect.Type{
	"18 request":      reflect.TypeFor[CreateTopicListRequestBody](),
	"21 response":     reflect.TypeFor[TopicConfigAndMappingSerializeWrapper](),
	"28 response":     reflect.TypeFor[KVTable](),
	"34 request":      reflect.TypeFor[HeartbeatData](),
	"38 response":     reflect.TypeFor[GetConsumerListByGroupResponseBody](),
	"41 request":      reflect.TypeFor[LockBatchRequestBody](),
	"41 response":     reflect.TypeFor[LockBatchResponseBody](),
	"42 request":      reflect.TypeFor[UnlockBatchRequestBody](),
	"43 response":     reflect.TypeFor[ConsumerOffsetSerializeWrapper](),
	"45 response":     reflect.TypeFor[DelayOffsetSerializeWrapper](),
	"46 request":      reflect.TypeFor[CheckClientRequestBody](),
	"61 response":     reflect.TypeFor[TimerMetricsSerializeWrapper](),
	"103 request":     reflect.TypeFor[RegisterBrokerBody](),
	"105 response":    reflect.TypeFor[TopicRouteData](),
	"106 response":    reflect.TypeFor[ClusterInfo](),
	"200 request":     reflect.TypeFor[SubscriptionGroupConfig](),
	"201 response":    reflect.TypeFor[SubscriptionGroupWrapper](),
	"202 response":    reflect.TypeFor[TopicStatsTable](),
	"203 response":    reflect.TypeFor[ConsumerConnection](),
	"204 response":    reflect.TypeFor[ProducerConnection](),
	"206 response":    reflect.TypeFor[TopicList](),
	"208 response":    reflect.TypeFor[ConsumeStats](),
	"217 request":     reflect.TypeFor[TopicRouteData](),
	"219 response":    reflect.TypeFor[KVTable](),
	"220 request":     reflect.TypeFor[ResetOffsetBody](),
	"221 response":    reflect.TypeFor[GetConsumerStatusBody](),
	"222 response":    reflect.TypeFor[ResetOffsetBody](),
	"223 response":    reflect.TypeFor[GetConsumerStatusBody](),
	"224 response":    reflect.TypeFor[TopicList](),
	"225 request":     reflect.TypeFor[SubscriptionGroupList](),
	"300 response":    reflect.TypeFor[GroupList](),
	"303 response":    reflect.TypeFor[QueryConsumeTimeSpanBody](),
	"304 response":    reflect.TypeFor[TopicList](),
	"305 response":    reflect.TypeFor[TopicList](),
	"307 response":    reflect.TypeFor[ConsumerRunningInfo](),
	"308 response":    reflect.TypeFor[QueryCorrectionOffsetBody](),
	"309 response":    reflect.TypeFor[ConsumeMessageDirectlyResult](),
	"311 response":    reflect.TypeFor[TopicList](),
	"312 response":    reflect.TypeFor[TopicList](),
	"313 response":    reflect.TypeFor[TopicList](),
	"315 response":    reflect.TypeFor[BrokerStatsData](),
	"317 response":    reflect.TypeFor[ConsumeStatsList](),
	"321 response":    reflect.TypeFor[QueryConsumeQueueResponseBody](),
	"322 request":     reflect.TypeFor[DataVersion](),
	"322 response":    reflect.TypeFor[DataVersion](),
	"328 response":    reflect.TypeFor[ProducerTableInfo](),
	"343 response":    reflect.TypeFor[TopicList](),
	"345 response":    reflect.TypeFor[QuerySubscriptionResponseBody](),
	"351 response":    reflect.TypeFor[TopicConfigAndQueueMapping](),
	"352 response":    reflect.TypeFor[SubscriptionGroupConfig](),
	"353 response":    reflect.TypeFor[GroupForbidden](),
	"354 response":    reflect.TypeFor[CheckRocksdbCqWriteResult](),
	"400 request":     reflect.TypeFor[QueryAssignmentRequestBody](),
	"400 response":    reflect.TypeFor[QueryAssignmentResponseBody](),
	"401 request":     reflect.TypeFor[SetMessageRequestModeRequestBody](),
	"402 response":    reflect.TypeFor[MessageRequestModeSerializeWrapper](),
	"513 request":     reflect.TypeFor[TopicQueueMappingDetail](),
	"901 response":    reflect.TypeFor[GetBrokerMemberGroupResponseBody](),
	"907 response":    reflect.TypeFor[HARuntimeInfo](),
	"1001 request":    reflect.TypeFor[SyncStateSet](),
	"1001 response":   reflect.TypeFor[SyncStateSet](),
	"1002 response":   reflect.TypeFor[ElectMasterResponseBody](),
	"1003 response":   reflect.TypeFor[SyncStateSet](),
	"1004 response":   reflect.TypeFor[SyncStateSet](),
	"1006 request":    reflect.TypeFor[[]string](),
	"1006 response":   reflect.TypeFor[BrokerReplicasInfo](),
	"1007 response":   reflect.TypeFor[EpochEntryCache](),
	"1008 request":    reflect.TypeFor[SyncStateSet](),
	"2003 response":   reflect.TypeFor[ColdDataFlowCtrInfo](),
	"3001 request":    reflect.TypeFor[UserInfo](),
	"3002 request":    reflect.TypeFor[UserInfo](),
	"3004 response":   reflect.TypeFor[UserInfo](),
	"3005 response":   reflect.TypeFor[[]UserInfo](),
	"3006 request":    reflect.TypeFor[AclInfo](),
	"3007 request":    reflect.TypeFor[AclInfo](),
	"3009 response":   reflect.TypeFor[AclInfo](),
	"3010 response":   reflect.TypeFor[[]AclInfo](),
	"200071 request":  reflect.TypeFor[LiteSubscriptionCtlRequestBody](),
	"200074 response": reflect.TypeFor[GetBrokerLiteInfoResponseBody](),
	"200075 response": reflect.TypeFor[GetParentTopicInfoResponseBody](),
	"200076 response": reflect.TypeFor[GetLiteTopicInfoResponseBody](),
	"200077 response": reflect.TypeFor[GetLiteClientInfoResponseBody](),
	"200078 response": reflect.TypeFor[GetLiteGroupInfoResponseBody](),
	"200151 request":  reflect.TypeFor[BatchAckMessageRequestBody](),
}

// freeOrder lists the bodies whose bytes depend on the iteration order of a Java map.
var freeOrder = map[string]bool{
	"21 response": true, "28 response": true, "43 response": true, "61 response": true, "103 request": true,
	"201 response": true, "203 response": true, "202 response": true, "208 response": true, "220 request": true, "221 response": true,
	"222 response": true, "223 response": true, "307 response": true, "317 response": true, "328 response": true,
	"2003 response": true,
}

// derived members are written by Java beside what they derive from; we leave them out.
var derived = map[string]bool{"consumeTimeStampStr": true, "maxTimeStampStr": true, "minTimeStampStr": true}

func tree(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := fastjson.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return prune(v)
}

func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if derived[key] {
				delete(v, key)
			} else {
				prune(value)
			}
		}
	case []any:
		for _, value := range v {
			prune(value)
		}
	}
	return v
}

func TestWireBodiesKeepTheirMeaning(t *testing.T) {
	seen := make(map[string]bool)
	for _, b := range wireBodies(t) {
		key := b.code + " " + b.side
		seen[key] = true
		typ, ok := wireTypes[key]
		if !ok {
			t.Errorf("%s %s: no type", key, b.name)
			continue
		}
		if typ == reflect.TypeFor[ResetOffsetBody]() && bytes.Contains(b.text, []byte(":[")) {
			typ = reflect.TypeFor[ResetOffsetBodyForC]()
		}
		t.Run(b.name+" "+b.side, func(t *testing.T) {
			v := reflect.New(typ)
			if err := fastjson.Unmarshal(b.text, v.Interface()); err != nil {
				t.Fatalf("%v in %s", err, b.text)
			}
			want := tree(t, b.text)
			if diff := cmp.Diff(want, tree(t, fastjson.Marshal(v.Interface()))); diff != "" {
				t.Errorf("meaning changed (-Java +ours):\n%s", diff)
			}
			if freeOrder[key] || key == "303 response" {
				return
			}
			unquoted := key != "105 response" // the captured clients get standard JSON
			if got := (fastjson.Encoder{UnquotedIntKeys: unquoted}).Marshal(v.Interface()); !bytes.Equal(got, b.text) {
				t.Errorf("text differs\nours %s\nJava %s", got, b.text)
			}
		})
	}
	for key := range wireTypes {
		if !seen[key] {
			t.Errorf("%s: no sample", key)
		}
	}
}
