package body

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/fastjson"
)

func TestEncodeRoute(t *testing.T) {
	route := &TopicRouteData{
		BrokerDatas: []BrokerData{{
			BrokerAddrs: map[int64]string{10: "c:1", 0: "10.0.0.1:10911", 2: "b:1"}, BrokerName: "brökér", Cluster: "a/b", ZoneName: "z1",
		}},
		QueueDatas:                []QueueData{{BrokerName: "brökér", Perm: 6, ReadQueueNums: 8, WriteQueueNums: 8}},
		OrderTopicConf:            "brökér:8",
		TopicQueueMappingByBroker: map[string]TopicQueueMappingInfo{"x": {BrokerName: "x", CurrIDMap: map[int32]int32{0: 0, 3: 1}, Scope: "__global__", Topic: "t"}},
	}
	legacy := `{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",2:"b:1",10:"c:1"},"brokerName":"brökér","cluster":"a/b","enableActingMaster":false,"zoneName":"z1"}],"filterServerTable":{},"orderTopicConf":"brökér:8","queueDatas":[{"brokerName":"brökér","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}],"topicQueueMappingByBroker":{"x":{"bname":"x","currIdMap":{0:0,3:1},"dirty":false,"epoch":0,"scope":"__global__","topic":"t","totalQueues":0}}}`
	standard := strings.NewReplacer("ö", `\u00f6`, "é", `\u00e9`, "a/b", `a\/b`, `{0:"`, `{"0":"`, `,2:"`, `,"2":"`, `,10:"`, `,"10":"`, `{0:0,3:1}`, `{"0":0,"3":1}`).Replace(legacy)
	if diff := cmp.Diff(legacy, string(EncodeRoute(route, true))); diff != "" {
		t.Errorf("legacy -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(standard, string(EncodeRoute(route, false))); diff != "" {
		t.Errorf("standard -want +got:\n%s", diff)
	}
	var back TopicRouteData
	if err := fastjson.Unmarshal([]byte(standard), &back); err != nil {
		t.Fatal(err)
	}
	route.FilterServerTable = map[string][]string{}
	if diff := cmp.Diff(*route, back); diff != "" {
		t.Errorf("read back -want +got:\n%s", diff)
	}
}

func TestWhatClientsDereferenceIsNeverMissing(t *testing.T) {
	for want, v := range map[string]any{
		`{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}`:                  &TopicRouteData{},
		`{"brokerAddrs":{},"brokerName":"","cluster":"","enableActingMaster":false}`: &BrokerData{},
		`{"brokerAddrTable":{},"clusterAddrTable":{}}`:                               &ClusterInfo{},
		`{"topicList":[]}`:               &TopicList{},
		`{"offsetTable":{}}`:             &ResetOffsetBody{},
		`{"lockOKMQSet":[]}`:             &LockBatchResponseBody{},
		`{"messageQueueAssignments":[]}`: &QueryAssignmentResponseBody{},
		`{"consumerIdList":[]}`:          &GetConsumerListByGroupResponseBody{},
	} {
		if got := string(fastjson.Marshal(v)); got != want {
			t.Errorf("%T: %s, want %s", v, got, want)
		}
	}
}

func TestDefaultsOfAbsentMembers(t *testing.T) {
	retry := `{"next":[1000,5000,10000,30000,60000,120000,180000,240000,300000,360000,420000,480000,540000,600000,1200000,1800000,3600000,7200000]}`
	for _, test := range []struct {
		v           any
		input, want string
	}{
		{&TopicConfig{}, `{"topicName":"T"}`, `{"attributes":{},"order":false,"perm":6,"readQueueNums":16,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":16}`},
		{&TopicConfigAndQueueMapping{}, `{"perm":2}`, `{"attributes":{},"order":false,"perm":2,"readQueueNums":16,"topicFilterType":"SINGLE_TAG","topicName":"","topicSysFlag":0,"writeQueueNums":16}`},
		{&SubscriptionGroupConfig{}, `{"groupName":"G"}`, `{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"G","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}`},
		{&GroupRetryPolicy{}, `{"customizedRetryPolicy":{}}`, `{"customizedRetryPolicy":` + retry + `,"type":"CUSTOMIZED"}`},
		{&GroupRetryPolicy{}, `{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1}}`, `{"exponentialRetryPolicy":{"initial":1,"max":7200000,"multiplier":2},"type":"EXPONENTIAL"}`},
		{&LogicQueueMappingItem{}, `{"bname":"b"}`, `{"bname":"b","endOffset":-1,"gen":0,"logicOffset":0,"queueId":0,"startOffset":0,"timeOfEnd":-1,"timeOfStart":-1}`},
		{&EpochEntryCache{}, `{"epochList":[{"epoch":2,"startOffset":9}]}`, `{"brokerId":0,"brokerName":"","clusterName":"","epochList":[{"endOffset":9223372036854775807,"epoch":2,"startOffset":9}],"maxOffset":0}`},
		{&MessageQueueAssignment{}, `{}`, `{"messageQueue":{"brokerName":"","queueId":0,"topic":""},"mode":"PULL"}`},
		{&SetMessageRequestModeRequestBody{}, `{"mode":"pop"}`, `{"consumerGroup":"","mode":"POP","popShareQueueNum":0,"topic":""}`},
	} {
		if err := fastjson.Unmarshal([]byte(test.input), test.v); err != nil {
			t.Errorf("%s: %v", test.input, err)
		}
		if diff := cmp.Diff(test.want, string(fastjson.Marshal(test.v))); diff != "" {
			t.Errorf("%T -want +got:\n%s", test.v, diff)
		}
	}
}

func TestEnumsFromOrdinals(t *testing.T) {
	var c ConsumerData
	if err := fastjson.Unmarshal([]byte(`{"consumeFromWhere":"4","consumeType":2,"messageModel":"broadcasting"}`), &c); err != nil {
		t.Fatal(err)
	}
	want := ConsumerData{ConsumeFromWhere: ConsumeFromFirstOffset, ConsumeType: ConsumePop, MessageModel: Broadcasting}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
	for i, want := range []CMResult{CRSuccess, CRLater, CRRollback, CRCommit, CRThrowException, CRReturnNull, ""} {
		var got CMResult
		if err := fastjson.Unmarshal([]byte{'0' + byte(i)}, &got); err != nil || got != want {
			t.Errorf("%d: %q, %v", i, got, err)
		}
	}
}

func TestBatchAckNames(t *testing.T) {
	want := BatchAck{BitSet: BitSet{7}, ConsumerGroup: "G", InvisibleTime: 60000, PopTime: 5, QueueID: 1, Retry: "0", ReviveQueueID: 2, StartOffset: 9, Topic: "T"}
	for _, input := range []string{
		`{"b":"Bw==","c":"G","it":60000,"pt":5,"q":1,"r":"0","rq":2,"so":9,"t":"T"}`,
		`{"bitSet":[7],"consumerGroup":"G","invisibleTime":60000,"popTime":5,"queueId":1,"retry":"0","reviveQueueId":2,"startOffset":9,"topic":"T"}`,
	} {
		var got BatchAck
		if err := fastjson.Unmarshal([]byte(input), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", input, diff)
		}
	}
}

func TestBitSet(t *testing.T) {
	var b BitSet
	for _, i := range []int{0, 9, 17} {
		b.Set(i)
	}
	if got := string(fastjson.Marshal(b)); got != `"AQIC"` {
		t.Errorf("text %s", got)
	}
	var back BitSet
	if err := fastjson.Unmarshal([]byte(`[1,2,-126]`), &back); err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(back.Bits); !slices.Equal(got, []int{0, 9, 17, 23}) {
		t.Errorf("bits %v", got)
	}
	for _, bad := range []string{`"%"`, `{}`, `[1.5e9]`, `"` + strings.Repeat("AAAA", maxBitSetBytes/3+1) + `"`} {
		if err := fastjson.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%.20s accepted", bad)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range wireBodies(f) {
		if len(b.text) < 2000 {
			f.Add(b.text)
		}
	}
	types := []reflect.Type{
		reflect.TypeFor[HeartbeatData](), reflect.TypeFor[ConsumerRunningInfo](), reflect.TypeFor[TopicRouteData](),
		reflect.TypeFor[SubscriptionGroupWrapper](), reflect.TypeFor[ConsumeStatsList](), reflect.TypeFor[BatchAckMessageRequestBody](),
		reflect.TypeFor[TopicConfigAndMappingSerializeWrapper](), reflect.TypeFor[ConsumerOffsetSerializeWrapper](),
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, typ := range types {
			v, back := reflect.New(typ), reflect.New(typ)
			if fastjson.Unmarshal(data, v.Interface()) != nil {
				continue
			}
			text := fastjson.Marshal(v.Interface())
			if err := fastjson.Unmarshal(text, back.Interface()); err != nil {
				t.Fatalf("own text of %v refused: %v\n%s", typ, err, text)
			}
			if again := fastjson.Marshal(back.Interface()); string(again) != string(text) {
				t.Fatalf("%v changes\n%s\n%s", typ, text, again)
			}
		}
	})
}

func FuzzDecodeRegisterBrokerBody(f *testing.F) {
	f.Add(registration().Encode(true))
	f.Add(registration().Encode(false))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := DecodeRegisterBrokerBody(data)
		if err != nil {
			return
		}
		if _, err := DecodeRegisterBrokerBody(b.Encode(false)); err != nil {
			t.Fatal(err)
		}
	})
}
