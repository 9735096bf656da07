package workflows

import (
	"context"
	"errors"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob"
)

// CheckSearchAttributes says whether the namespace has onejob's search attributes. It
// fails with [onejob.ErrMisconfigured] and [onejob.ErrServerUnreachable].
func CheckSearchAttributes(ctx context.Context, c client.Client, namespace string) error {
	missing, err := MissingSearchAttributes(ctx, c, namespace)
	if err == nil && len(missing) > 0 {
		err = onejob.Errorf(onejob.CodeMisconfigured, "temporal's namespace %q lacks the search attributes %s: run 'onejob migrate up'", namespace, strings.Join(missing, ", "))
	}
	return err
}

// RegisterSearchAttributes adds to the namespace what it lacks of onejob's search
// attributes and returns their names. Any number of callers may do it at once.
func RegisterSearchAttributes(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	missing, err := MissingSearchAttributes(ctx, c, namespace)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	wanted := map[string]enumspb.IndexedValueType{}
	for _, name := range missing {
		wanted[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{SearchAttributes: wanted, Namespace: namespace})
	if _, there := errors.AsType[*serviceerror.AlreadyExists](err); there {
		return nil, nil
	}
	return missing, translate("register search attributes", err)
}

// MissingSearchAttributes returns which of onejob's search attributes the namespace lacks.
// It fails as [CheckSearchAttributes] does.
func MissingSearchAttributes(ctx context.Context, c client.Client, namespace string) (missing []string, err error) {
	there, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, translate("list search attributes", err)
	}
	for _, name := range SearchAttributes() {
		if there.CustomAttributes[name] != enumspb.INDEXED_VALUE_TYPE_KEYWORD {
			missing = append(missing, name)
		}
	}
	return missing, nil
}
