package code

import "fmt"

// Version is the software version of a command's sender: the ordinal in Java's enum MQVersion.Version.
type Version int32

// Versions that behaviour depends on, and ours.
const (
	V3_0_7Snapshot Version = 28  // clients from here on understand RESET_CONSUMER_CLIENT_OFFSET and GET_CONSUMER_STATUS_FROM_CLIENT
	V3_0_11        Version = 37  // brokers from here on register with a RegisterBrokerBody
	V3_1_8Snapshot Version = 62  // clients from here on understand GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY
	V3_4_9         Version = 121 // consumers from here on send maxReconsumeTimes
	V4_1_0Snapshot Version = 232 // consumers want a broker of at least this for expressions other than tags
	V4_9_4         Version = 401 // clients from here on read routes in standard JSON
	V5_0_0         Version = 413 // brokers from here on register queue mappings
	V5_3_1         Version = 475 // clients above understand GO_AWAY
	V5_5_0         Version = 513
	HigherVersion  Version = 612 // Java's name for whatever is newer than V5_9_9

	Current = V5_5_0 // what we announce
)

// earlyVersions are the ordinals before the releases became regular.
var earlyVersions = [...]string{
	"V3_0_0_SNAPSHOT", "V3_0_0_ALPHA1", "V3_0_0_BETA1", "V3_0_0_BETA2", "V3_0_0_BETA3", "V3_0_0_BETA4", "V3_0_0_BETA5",
	"V3_0_0_BETA6_SNAPSHOT", "V3_0_0_BETA6", "V3_0_0_BETA7_SNAPSHOT", "V3_0_0_BETA7", "V3_0_0_BETA8_SNAPSHOT", "V3_0_0_BETA8",
	"V3_0_0_BETA9_SNAPSHOT", "V3_0_0_BETA9", "V3_0_0_FINAL",
}

// versionRuns describe the other ordinals: from first on, every release has two, the snapshot before the release, and every
// minor version has the same releases. Minor versions end at 9.
var versionRuns = [...]struct{ first, major, minor, patch, releases int }{
	{212, 4, 0, 0, 10},
	{86, 3, 3, 1, 9},
	{66, 3, 2, 0, 10},
	{46, 3, 1, 0, 10},
	{16, 3, 0, 1, 15},
}

// String returns the name of the enum constant, such as V5_5_0, which is also what brokers show as brokerVersionDesc.
func (v Version) String() string {
	if v < 0 {
		return fmt.Sprintf("Version(%d)", int32(v))
	}
	if v >= HigherVersion {
		return "HIGHER_VERSION"
	}
	for _, r := range versionRuns {
		if int(v) < r.first {
			continue
		}
		n := int(v) - r.first
		release := n / 2
		minor := r.minor + release/r.releases
		name := fmt.Sprintf("V%d_%d_%d", r.major+minor/10, minor%10, r.patch+release%r.releases)
		if n%2 == 0 {
			name += "_SNAPSHOT"
		}
		return name
	}
	return earlyVersions[v]
}
