package body

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/fastjson"
)

// form is one row of testdata/json-forms.json: what the reader and writer of RocketMQ 5.5.0 do with an input.
type form struct {
	Case    string  `json:"case"`
	Class   string  `json:"class"`
	Input   *string `json:"input"`
	OK      bool    `json:"ok"`
	Decoded *string `json:"decodedThenEncoded"`
	Encoded string  `json:"encoded"`

	Code      int32             `json:"code"`
	Language  string            `json:"language"`
	Version   int32             `json:"version"`
	Flag      int32             `json:"flag"`
	ExtFields map[string]string `json:"extFields"`
	Opaque    *int32            `json:"opaque"`
}

// command stands for RemotingCommand, whose forms say much about the grammar.
type command struct {
	Code      int32             `json:"code"`
	ExtFields map[string]string `json:"extFields"`
	Flag      int32             `json:"flag"`
	Language  string            `json:"language"`
	Opaque    *int32            `json:"opaque"`
	Version   int32             `json:"version"`
}

var formTypes = map[string]reflect.Type{
	"BrokerData":                     reflect.TypeFor[BrokerData](),
	"ConsumeMessageDirectlyResult":   reflect.TypeFor[ConsumeMessageDirectlyResult](),
	"ConsumeStats":                   reflect.TypeFor[ConsumeStats](),
	"ConsumerOffsetSerializeWrapper": reflect.TypeFor[ConsumerOffsetSerializeWrapper](),
	"ConsumerRunningInfo":            reflect.TypeFor[ConsumerRunningInfo](),
	"HeartbeatData":                  reflect.TypeFor[HeartbeatData](),
	"KVTable":                        reflect.TypeFor[KVTable](),
	"QueueData":                      reflect.TypeFor[QueueData](),
	"RemotingCommand":                reflect.TypeFor[command](),
	"TopicConfigSerializeWrapper":    reflect.TypeFor[TopicConfigSerializeWrapper](),
	"TopicRouteData":                 reflect.TypeFor[TopicRouteData](),
	"TopicStatsTable":                reflect.TypeFor[TopicStatsTable](),
}

// accepted are the forms that Java refuses and we take, with the text of what we make of it.
var accepted = map[string]string{
	"object as key, as a string":                                 `{"consumeTps":1.5,"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:{"brokerOffset":10,"consumerOffset":5,"lastTimestamp":99,"pullOffset":0}}}`,
	"object keys as strings":                                     `{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:{"lastUpdateTimestamp":1,"maxOffset":2,"minOffset":0}},"topicPutTps":0.0}`,
	"integer keys unquoted in an unknown member":                 `{"offsetTable":{"T@G":{"0":5}}}`,
	"nested integer keys in an unknown member":                   `{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"topicConfigTable":{}}`,
	"enum unknown ordinal":                                       `{"clientID":"c","consumerDataSet":[{"groupName":"G","subscriptionDataSet":[],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[],"withoutSub":false}`,
	"unknown field holding an object with unquoted integer keys": `{"code":34,"flag":0,"language":"JAVA","opaque":1,"version":513}`,
	"unquoted keys":                                              `{"code":34,"flag":0,"language":"GO","version":0}`,
	"language ordinal 14":                                        `{"code":34,"flag":0,"language":"14","version":0}`,
	"null":                                                       `{"code":0,"flag":0,"language":"","version":0}`,
}

// different are the forms that both take and we read differently.
var different = map[string]string{
	// A reference means the object; Java's set gets a null that fails later.
	"reference $ref": `{"clientID":"c","consumerDataSet":[{"groupName":"G","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":5,"tagsSet":[],"topic":"T"}],"unitMode":false},{"groupName":"H","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":5,"tagsSet":[],"topic":"T"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[],"withoutSub":false}`,
	// A list that peers dereference is never left out.
	"set given as null": `{"clientID":"c","consumerDataSet":[],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"P"}],"withoutSub":false}`,
	// The member names are written, empty or not.
	"key case and underscore": `{"brokerName":"","perm":0,"readQueueNums":0,"topicSysFlag":0,"writeQueueNums":0}`,
	// The Go client's spelling counts.
	"running info, Go spelling": `{"mqPopTable":{},"mqTable":{{"brokerName":"b","queueId":1,"topic":"T"}:{"cachedMsgCount":0,"cachedMsgMaxOffset":0,"cachedMsgMinOffset":0,"cachedMsgSizeInMiB":0,"commitOffset":5,"droped":true,"lastConsumeTimestamp":0,"lastLockTimestamp":0,"lastPullTimestamp":0,"locked":false,"transactionMsgCount":0,"transactionMsgMaxOffset":0,"transactionMsgMinOffset":0,"tryUnlockTimes":0}},"properties":{},"statusTable":{},"subscriptionSet":[],"userConsumerInfo":{}}`,
	// An empty text that Java could have as null is left out.
	"direct result as a number (Go)": `{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":3}`,
	// Languages are plain text to this reader; absence reads as empty.
	"language ordinal":      `{"code":34,"flag":0,"language":"9","version":0}`,
	"language ordinal 13":   `{"code":34,"flag":0,"language":"13","version":0}`,
	"language lower case":   `{"code":34,"flag":0,"language":"go","version":0}`,
	"language unknown name": `{"code":34,"flag":0,"language":"KOTLIN","version":0}`,
	"language null":         `{"code":34,"flag":0,"language":"","version":0}`,
	"ext value null":        `{"code":34,"extFields":{"k":""},"flag":0,"language":"JAVA","opaque":1,"version":513}`,
}

func TestJSONForms(t *testing.T) {
	data, err := os.ReadFile("testdata/json-forms.json")
	if err != nil {
		t.Fatal(err)
	}
	var forms []form
	if err := json.Unmarshal(data, &forms); err != nil {
		t.Fatal(err)
	}
	for _, f := range forms {
		t.Run(f.Class+" "+f.Case, func(t *testing.T) { checkForm(t, f) })
	}
}

func checkForm(t *testing.T, f form) {
	typ, ok := formTypes[f.Class]
	if !ok {
		t.Fatalf("no type for class %s", f.Class)
	}
	input, want := f.Encoded, f.Encoded
	if f.Input != nil {
		input = *f.Input
		want = f.javaResult()
	}
	ours, isAccepted := accepted[f.Case]
	if isAccepted {
		want = ours
	} else if ours, ok := different[f.Case]; ok && f.OK {
		want = ours
	}
	v := reflect.New(typ)
	err := fastjson.Unmarshal([]byte(input), v.Interface())
	if want == "" { // refused by both; the empty text is null to Java and an error to us
		if err == nil {
			t.Fatalf("accepted as %s", fastjson.Marshal(v.Interface()))
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if isAccepted && f.Input != nil && f.OK {
		t.Fatal("Java accepts it too: a form for the other table")
	}
	got := fastjson.Marshal(v.Interface())
	if diff := cmp.Diff(tree(t, []byte(want)), tree(t, got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// javaResult is the text of what Java read, empty when it refused.
func (f form) javaResult() string {
	switch {
	case !f.OK:
		return ""
	case f.Class == "RemotingCommand":
		language := f.Language
		if language == "JAVA" && !strings.Contains(*f.Input, `"language":"JAVA"`) {
			language = "" // the default of the Java class, which is not this reader's matter
		}
		return string(fastjson.Marshal(command{Code: f.Code, ExtFields: f.ExtFields, Flag: f.Flag, Language: language, Opaque: f.Opaque, Version: f.Version}))
	case f.Decoded == nil:
		return ""
	default:
		return *f.Decoded
	}
}
