package header

// HeartbeatRequest is HEART_BEAT.
type HeartbeatRequest struct {
	RpcRequest
}

// HeartbeatResponse answers it. The values are "true" or "false"; brokers without the second version of the heartbeat leave
// them out.
type HeartbeatResponse struct {
	SupportV2 Opt[bool] `h:"IS_SUPPORT_HEART_BEAT_V2"`
	SubChange Opt[bool] `h:"IS_SUB_CHANGE"`
}
