package httpjson

import (
	"net/http"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

var _ provider.CallbackReader = (*Adapter)(nil)

// ReadCallback implements [provider.CallbackReader]: a callback says what a look-up would
// be answered.
func (a *Adapter) ReadCallback(body []byte) provider.Answer {
	return a.line.Clean(a.lookUps.LookUp(verdict.Received{Status: http.StatusOK, Header: http.Header{}, Body: body}, 0))
}
