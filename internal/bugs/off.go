//go:build !bugs

package bugs

// The bugs, all fixed; see on.go.
const (
	SkipUnion         = false
	CountUnknown      = false
	SkipAbsent        = false
	MaxWatermark      = false
	ShrinkEarly       = false
	NoBarrier         = false
	ForgetUnanswered  = false
	IgnoreMinInSync   = false
	ResumeEpoch       = false
	ConfirmAhead      = false
	UnflushedGate     = false
	AckBeforeWrite    = false
	NoEpochFile       = false
	KeepEmptyEpoch    = false
	NoTailCut         = false
	CutTooMuch        = false
	CutInMemory       = false
	IgnoreFailedSync  = false
	ReuseQueueOffsets = false
	DispatchAll       = false
	ConfirmBack       = false
	KeepWaiters       = false
	RecoverAll        = false
	StateAhead        = false
	TrustTorn         = false
	FormerLife        = false
	LateRegistration  = false
	ElectAnybody      = false
	SameEpoch         = false
	AnswerUnsettled   = false
)
