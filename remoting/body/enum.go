package body

import (
	"strconv"
	"strings"

	"github.com/castor-mq/castor/internal/fastjson"
)

// The enums below are read from their name in any letter case or from their ordinal. Anything else leaves
// the default, which is empty in most bodies: Java makes a null of an unknown name, and an unknown ordinal must not cost a
// client its heartbeat either.

// ConsumeType tells how a consumer gets its messages.
type ConsumeType string

const (
	ConsumeActively  ConsumeType = "CONSUME_ACTIVELY"  // pull and lite pull consumers
	ConsumePassively ConsumeType = "CONSUME_PASSIVELY" // push consumers
	ConsumePop       ConsumeType = "CONSUME_POP"
)

// UnmarshalFastJSON implements fastjson.Unmarshaler.
func (t *ConsumeType) UnmarshalFastJSON(raw []byte) error {
	return readEnum(raw, t, ConsumeActively, ConsumePassively, ConsumePop)
}

// MessageModel tells whether the members of a group share the messages or each get all.
type MessageModel string

const (
	Broadcasting MessageModel = "BROADCASTING"
	Clustering   MessageModel = "CLUSTERING"
)

// UnmarshalFastJSON implements fastjson.Unmarshaler.
func (m *MessageModel) UnmarshalFastJSON(raw []byte) error {
	return readEnum(raw, m, Broadcasting, Clustering)
}

// ConsumeFromWhere tells where a group without offsets starts.
type ConsumeFromWhere string

const (
	ConsumeFromLastOffset                        ConsumeFromWhere = "CONSUME_FROM_LAST_OFFSET"
	ConsumeFromLastOffsetAndFromMinWhenBootFirst ConsumeFromWhere = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
	ConsumeFromMinOffset                         ConsumeFromWhere = "CONSUME_FROM_MIN_OFFSET"
	ConsumeFromMaxOffset                         ConsumeFromWhere = "CONSUME_FROM_MAX_OFFSET"
	ConsumeFromFirstOffset                       ConsumeFromWhere = "CONSUME_FROM_FIRST_OFFSET"
	ConsumeFromTimestamp                         ConsumeFromWhere = "CONSUME_FROM_TIMESTAMP"
)

// UnmarshalFastJSON implements fastjson.Unmarshaler.
func (w *ConsumeFromWhere) UnmarshalFastJSON(raw []byte) error {
	return readEnum(raw, w, ConsumeFromLastOffset, ConsumeFromLastOffsetAndFromMinWhenBootFirst, ConsumeFromMinOffset,
		ConsumeFromMaxOffset, ConsumeFromFirstOffset, ConsumeFromTimestamp)
}

// CMResult is the outcome of a direct consumption. The Go client sends its ordinal.
type CMResult string

const (
	CRSuccess        CMResult = "CR_SUCCESS"
	CRLater          CMResult = "CR_LATER"
	CRRollback       CMResult = "CR_ROLLBACK"
	CRCommit         CMResult = "CR_COMMIT"
	CRThrowException CMResult = "CR_THROW_EXCEPTION"
	CRReturnNull     CMResult = "CR_RETURN_NULL"
)

// UnmarshalFastJSON implements fastjson.Unmarshaler.
func (r *CMResult) UnmarshalFastJSON(raw []byte) error {
	return readEnum(raw, r, CRSuccess, CRLater, CRRollback, CRCommit, CRThrowException, CRReturnNull)
}

// MessageRequestMode tells whether a group pulls or pops a topic.
type MessageRequestMode string

const (
	ModePull MessageRequestMode = "PULL"
	ModePop  MessageRequestMode = "POP"
)

// UnmarshalFastJSON implements fastjson.Unmarshaler.
func (m *MessageRequestMode) UnmarshalFastJSON(raw []byte) error {
	return readEnum(raw, m, ModePull, ModePop)
}

// GroupRetryPolicyType names the policy that a GroupRetryPolicy uses.
type GroupRetryPolicyType string

const (
	RetryExponential GroupRetryPolicyType = "EXPONENTIAL"
	RetryCustomized  GroupRetryPolicyType = "CUSTOMIZED"
)

// UnmarshalFastJSON implements fastjson.Unmarshaler.
func (t *GroupRetryPolicyType) UnmarshalFastJSON(raw []byte) error {
	return readEnum(raw, t, RetryExponential, RetryCustomized)
}

// readEnum sets e to the one of values, listed in the order of their ordinals, that raw means, or leaves it.
func readEnum[E ~string](raw []byte, e *E, values ...E) error {
	var text string
	if err := fastjson.Unmarshal(raw, &text); err != nil {
		return err
	}
	for ordinal, value := range values {
		if strings.EqualFold(text, string(value)) || text == strconv.Itoa(ordinal) {
			*e = value
		}
	}
	return nil
}
