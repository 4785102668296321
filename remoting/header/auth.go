package header

// CreateUserRequest is AUTH_CREATE_USER.
type CreateUserRequest struct {
	Username string `h:"username"`
}

// UpdateUserRequest is AUTH_UPDATE_USER.
type UpdateUserRequest struct {
	Username string `h:"username"`
}

// DeleteUserRequest is AUTH_DELETE_USER.
type DeleteUserRequest struct {
	Username string `h:"username"`
}

// GetUserRequest is AUTH_GET_USER.
type GetUserRequest struct {
	Username string `h:"username"`
}

// ListUsersRequest is AUTH_LIST_USER.
type ListUsersRequest struct {
	Filter string `h:"filter"`
}

// CreateAclRequest is AUTH_CREATE_ACL.
type CreateAclRequest struct {
	Subject string `h:"subject"`
}

// UpdateAclRequest is AUTH_UPDATE_ACL.
type UpdateAclRequest struct {
	Subject string `h:"subject"`
}

// DeleteAclRequest is AUTH_DELETE_ACL.
type DeleteAclRequest struct {
	Subject    string `h:"subject"`
	PolicyType string `h:"policyType"`
	Resource   string `h:"resource"`
}

// GetAclRequest is AUTH_GET_ACL.
type GetAclRequest struct {
	Subject string `h:"subject"`
}

// ListAclsRequest is AUTH_LIST_ACL.
type ListAclsRequest struct {
	SubjectFilter  string `h:"subjectFilter"`
	ResourceFilter string `h:"resourceFilter"`
}
