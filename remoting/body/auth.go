package body

// UserInfo describes a user. In an update, empty members stay as they are.
type UserInfo struct {
	Password   string `json:"password,omitempty"`
	UserStatus string `json:"userStatus,omitempty"` // enable, disable
	UserType   string `json:"userType,omitempty"`   // Super, Normal
	Username   string `json:"username"`
}

// AclInfo lists what a subject may do.
type AclInfo struct {
	Policies []PolicyInfo `json:"policies"`
	Subject  string       `json:"subject"` // User:name
}

// PolicyInfo is one policy of a subject.
type PolicyInfo struct {
	Entries    []PolicyEntryInfo `json:"entries"`
	PolicyType string            `json:"policyType,omitempty"` // Custom, Default
}

// PolicyEntryInfo allows or denies actions on a resource.
type PolicyEntryInfo struct {
	Actions   []string `json:"actions"`
	Decision  string   `json:"decision,omitempty"` // Allow, Deny
	Resource  string   `json:"resource,omitempty"` // Topic:name, Group:name, Cluster:name; * at the end of a name
	SourceIps []string `json:"sourceIps"`          // addresses or networks; none: any
}
