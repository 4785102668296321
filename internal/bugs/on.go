//go:build bugs

package bugs

// The bugs. At most one is set at a time.
var (
	SkipUnion         bool // the confirm offset does not wait for who is proposed
	CountUnknown      bool // a member without a connection does not hold up the confirm offset
	SkipAbsent        bool // nor does one that never had one
	MaxWatermark      bool // the confirm offset is what the fastest member has
	ShrinkEarly       bool // a smaller set counts before it is committed
	NoBarrier         bool // a newcomer enters the set before it has caught up
	ForgetUnanswered  bool // a proposal that was not answered is given up at once
	IgnoreMinInSync   bool // a set that is too small confirms
	ResumeEpoch       bool // a restarted master goes on in its epoch
	ConfirmAhead      bool // a master says that what it sends is confirmed
	UnflushedGate     bool // a master with SYNC_FLUSH confirms what is written
	AckBeforeWrite    bool // a replica acknowledges before it has written
	NoEpochFile       bool // a master does not note its epoch
	KeepEmptyEpoch    bool // an epoch in which nothing was written stays in the way
	NoTailCut         bool // logs that part are joined as they are
	CutTooMuch        bool // a cut goes back to where the segment begins
	CutInMemory       bool // what is cut off stays on the disk
	IgnoreFailedSync  bool // a failed sync counts as one
	ReuseQueueOffsets bool // a new master counts queue offsets from what is dispatched
	DispatchAll       bool // records are dispatched before they are confirmed
	ConfirmBack       bool // the confirm offset follows the gate down
	KeepWaiters       bool // those who wait stay when a master is deposed
	RecoverAll        bool // after a restart the whole log counts as confirmed
	StateAhead        bool // the state is written before the log below it is durable
	TrustTorn         bool // who lost what it had acknowledged stays in the set
	FormerLife        bool // what a replica acknowledged before it lost its power brings it back into the set
	LateRegistration  bool // what a former process has said of itself replaces what the present one has
	ElectAnybody      bool // every replica that lives can be elected
	SameEpoch         bool // an election does not raise the epoch
	AnswerUnsettled   bool // a new master serves before it has confirmed what it took over
)

// Bug is one of them.
type Bug struct {
	Name string
	On   *bool
	// Seed of a simulation that has found it, and does as long as nothing changes what the seed means; 0 for none.
	Seed uint64
}

// All lists them.
var All = []Bug{
	{"SkipUnion", &SkipUnion, 567},
	{"CountUnknown", &CountUnknown, 1},
	{"SkipAbsent", &SkipAbsent, 18},
	{"MaxWatermark", &MaxWatermark, 2},
	{"ShrinkEarly", &ShrinkEarly, 6},
	{"NoBarrier", &NoBarrier, 116},
	{"ForgetUnanswered", &ForgetUnanswered, 1740},
	{"IgnoreMinInSync", &IgnoreMinInSync, 9},
	{"ResumeEpoch", &ResumeEpoch, 1},
	{"ConfirmAhead", &ConfirmAhead, 2},
	{"UnflushedGate", &UnflushedGate, 68},
	{"AckBeforeWrite", &AckBeforeWrite, 131},
	{"NoEpochFile", &NoEpochFile, 3},
	{"KeepEmptyEpoch", &KeepEmptyEpoch, 20},
	{"NoTailCut", &NoTailCut, 6},
	{"CutTooMuch", &CutTooMuch, 40},
	{"CutInMemory", &CutInMemory, 40},
	{"IgnoreFailedSync", &IgnoreFailedSync, 3},
	{"ReuseQueueOffsets", &ReuseQueueOffsets, 1},
	{"DispatchAll", &DispatchAll, 2},
	{"ConfirmBack", &ConfirmBack, 6},
	{"KeepWaiters", &KeepWaiters, 6},
	{"RecoverAll", &RecoverAll, 1},
	{"StateAhead", &StateAhead, 5},
	{"TrustTorn", &TrustTorn, 47},
	{"FormerLife", &FormerLife, 80001424},
	{"LateRegistration", &LateRegistration, 93018746},
	{"ElectAnybody", &ElectAnybody, 6},
	{"SameEpoch", &SameEpoch, 1},
	{"AnswerUnsettled", &AnswerUnsettled, 1},
}
