package header

// RpcRequest holds the fields that most requests inherit (Java: RpcRequestHeader).
type RpcRequest struct {
	NS    string    `h:"ns"`    // namespace
	NSD   Opt[bool] `h:"nsd"`   // the names are already namespaced
	BName string    `h:"bname"` // broker name, logical or physical
	Oway  Opt[bool] `h:"oway"`  // hint: the sender wants no answer
}

// TopicRequest adds the mark of static topics (Java: TopicRequestHeader, TopicQueueRequestHeader).
type TopicRequest struct {
	RpcRequest
	Lo Opt[bool] `h:"lo"` // logical: queue and offset are those of a static topic; absent is unspecified
}
