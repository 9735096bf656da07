package child

import "syscall"

func signalOnOwnerDeath(attributes *syscall.SysProcAttr, sig syscall.Signal) {
	attributes.Pdeathsig = sig
}
