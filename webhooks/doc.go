// Package webhooks tells owners what became of their jobs: each job.succeeded, job.failed and
// job.cancelled goes to the owner's endpoints and to the job's own callback_url, signed by
// Standard Webhooks (standardwebhooks.com).
//
// The group of [Consumer] writes one delivery per message and receiver, once, in the
// transaction of its claim. [Sender] sends what is due: a try is counted and committed before
// it is made, so that a sender which dies in the middle counts too. What fails is tried again
// for three days and is dead then; somebody may ask for it anew. Receivers hear of a message
// at least once; its webhook-id is the message's key, the same in every try.
//
// The URLs are strangers': a sender connects to no address that is not public, checked on the
// address that a name resolved to, follows no redirect, uses no proxy, and reads no more of an
// answer than it needs. Slow receivers wait for themselves only.
//
// It imports the domain, messages, postgres and provider, and nothing else of this module.
package webhooks
