//go:build unix && !linux

package child

import "syscall"

// signalOnOwnerDeath does nothing: only Linux tells a process of its parent's death.
func signalOnOwnerDeath(*syscall.SysProcAttr, syscall.Signal) {}
