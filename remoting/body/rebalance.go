package body

// LockBatchRequestBody asks for the locks of ordered queues. OnlyThisBroker marks a broker's own question to its peers.
type LockBatchRequestBody struct {
	ClientID       string         `json:"clientId"`
	ConsumerGroup  string         `json:"consumerGroup"`
	MqSet          []MessageQueue `json:"mqSet,nonnil"`
	OnlyThisBroker bool           `json:"onlyThisBroker"`
}

// LockBatchResponseBody lists the queues that the client holds now.
type LockBatchResponseBody struct {
	LockOKMQSet []MessageQueue `json:"lockOKMQSet,nonnil"`
}

// UnlockBatchRequestBody gives locks back.
type UnlockBatchRequestBody struct {
	ClientID       string         `json:"clientId"`
	ConsumerGroup  string         `json:"consumerGroup"`
	MqSet          []MessageQueue `json:"mqSet,nonnil"`
	OnlyThisBroker bool           `json:"onlyThisBroker"`
}

// QueryAssignmentRequestBody asks which queues a client shall consume.
type QueryAssignmentRequestBody struct {
	ClientID      string       `json:"clientId"`
	ConsumerGroup string       `json:"consumerGroup"`
	MessageModel  MessageModel `json:"messageModel,omitempty"`
	StrategyName  string       `json:"strategyName,omitempty"` // AVG or AVG_BY_CIRCLE
	Topic         string       `json:"topic"`
}

// QueryAssignmentResponseBody is the answer to QUERY_ASSIGNMENT.
type QueryAssignmentResponseBody struct {
	MessageQueueAssignments []MessageQueueAssignment `json:"messageQueueAssignments,nonnil"`
}

// MessageQueueAssignment is one queue and how to consume it. Queue id -1 is every queue of the broker.
type MessageQueueAssignment struct {
	Attachments  map[string]string  `json:"attachments"`
	MessageQueue MessageQueue       `json:"messageQueue"`
	Mode         MessageRequestMode `json:"mode,omitempty"`
}

// SetDefaults implements fastjson.Defaulter.
func (a *MessageQueueAssignment) SetDefaults() {
	*a = MessageQueueAssignment{Mode: ModePull}
}

// SetMessageRequestModeRequestBody switches a group between pull and pop. PopShareQueueNum is how many members share a
// queue; 0 and less: all.
type SetMessageRequestModeRequestBody struct {
	ConsumerGroup    string             `json:"consumerGroup"`
	Mode             MessageRequestMode `json:"mode,omitempty"`
	PopShareQueueNum int32              `json:"popShareQueueNum"`
	Topic            string             `json:"topic"`
}

// SetDefaults implements fastjson.Defaulter.
func (b *SetMessageRequestModeRequestBody) SetDefaults() {
	*b = SetMessageRequestModeRequestBody{Mode: ModePull}
}

// MessageRequestModeSerializeWrapper is the answer to GET_ALL_MESSAGE_REQUEST_MODE and the text of
// config/messageRequestMode.json.
type MessageRequestModeSerializeWrapper struct {
	MessageRequestModeMap map[string]map[string]SetMessageRequestModeRequestBody `json:"messageRequestModeMap,nonnil"` // topic → group
}
