package onejob

// CertificationOwner pays for the calls by which providers prove themselves. A budget of its own
// bounds them, as any owner's does. Nobody else has the name: [CheckOwner] refuses it.
const CertificationOwner = "onejob:certification"

// CertificationWorkflowID is the ID under which a provider proves that it honours a contract: one
// run at a time.
func CertificationWorkflowID(contractSHA256, provider string) string {
	return "certification/" + contractSHA256 + "/" + escape(provider)
}
