package onejob

import "slices"

// Role is what the holder of a token may do.
type Role string

// The roles, each of which may do what those before it may.
const (
	RoleUser     Role = "user"     // submits jobs of its own owner, reads them, and decides about them
	RoleOperator Role = "operator" // reads everything, decides about any job, and says what became of attempts
	RoleAdmin    Role = "admin"    // changes what belongs to owners: their webhooks
)

// Roles lists the roles, the least first.
func Roles() []Role { return []Role{RoleUser, RoleOperator, RoleAdmin} }

// Includes says that r may do what least may. A role that is not one of [Roles] may nothing.
func (r Role) Includes(least Role) bool {
	return slices.Contains(Roles(), least) && slices.Index(Roles(), r) >= slices.Index(Roles(), least)
}
