package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Client speaks the control API of a simulator. Its methods return an error if the
// simulator does not answer or says no; the message names the reason.
type Client struct {
	base string
	http *http.Client
}

// NewClient returns a client of the simulator at the address, such as
// http://127.0.0.1:8099.
func NewClient(address string) *Client {
	return &Client{base: address, http: &http.Client{Transport: &http.Transport{}}}
}

// Close closes the client's idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// AwaitRequest returns once the subject has sent count requests, and an error if ctx
// or a minute is over before.
func (c *Client) AwaitRequest(ctx context.Context, s Subject, count int) (Counts, error) {
	return c.await(ctx, s, "requests", count)
}

// AwaitExecution returns once count requests of the subject were executed, and an
// error if ctx or a minute is over before.
func (c *Client) AwaitExecution(ctx context.Context, s Subject, count int) (Counts, error) {
	return c.await(ctx, s, "executions", count)
}

// AwaitLookUp returns once count look-ups of the subject's calls came in, and an error
// if ctx or a minute is over before. So do AwaitCancel and AwaitDelivery.
func (c *Client) AwaitLookUp(ctx context.Context, s Subject, count int) (Counts, error) {
	return c.await(ctx, s, "look_ups", count)
}

// AwaitCancel waits for cancels, agreed to or not.
func (c *Client) AwaitCancel(ctx context.Context, s Subject, count int) (Counts, error) {
	return c.await(ctx, s, "cancels", count)
}

// AwaitDelivery waits for tries to deliver a callback: until they are answered.
func (c *Client) AwaitDelivery(ctx context.Context, s Subject, count int) (Counts, error) {
	return c.await(ctx, s, "deliveries", count)
}

func (c *Client) await(ctx context.Context, s Subject, what string, count int) (counts Counts, err error) {
	query := s.query()
	query.Set(what, strconv.Itoa(count))
	query.Set("timeout", longestAwait.String())
	if end, ok := ctx.Deadline(); ok {
		query.Set("timeout", min(longestAwait, time.Until(end)).String())
	}
	err = c.call(ctx, http.MethodGet, "await", query, nil, &counts)
	return counts, err
}

// Executions returns the subject's counts.
func (c *Client) Executions(ctx context.Context, s Subject) (counts Counts, err error) {
	err = c.call(ctx, http.MethodGet, "executions", s.query(), nil, &counts)
	return counts, err
}

// Deliveries returns the tries that the subject's callbacks had, the oldest first. The
// newest 10,000 of all are kept.
func (c *Client) Deliveries(ctx context.Context, s Subject) (tries []Delivery, err error) {
	err = c.call(ctx, http.MethodGet, "deliveries", s.query(), nil, &tries)
	return tries, err
}

// ForgetKey forgets the reply kept under the idempotency key (empty: under every key),
// and returns how many there were: the next request with it is executed.
func (c *Client) ForgetKey(ctx context.Context, key string) (int, error) {
	var f forgotten
	err := c.call(ctx, http.MethodPost, "forget", url.Values{"key": {key}}, nil, &f)
	return f.Forgotten, err
}

// Totals returns the counts of all requests.
func (c *Client) Totals(ctx context.Context) (totals Totals, err error) {
	err = c.call(ctx, http.MethodGet, "totals", nil, nil, &totals)
	return totals, err
}

// Release lets go the requests held under the name, and those to come, and returns how
// many were held.
func (c *Client) Release(ctx context.Context, name string) (int, error) {
	var r released
	err := c.call(ctx, http.MethodPost, "release", url.Values{"name": {name}}, nil, &r)
	return r.Released, err
}

// SetPlan replaces the plan for requests that arrive from now on.
func (c *Client) SetPlan(ctx context.Context, p Plan) error {
	return c.call(ctx, http.MethodPost, "plan", nil, p, nil)
}

// Reset is [Simulator.Reset].
func (c *Client) Reset(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "reset", nil, nil, nil)
}

func (c *Client) call(ctx context.Context, method, verb string, query url.Values, body, into any) error {
	var text io.Reader
	if body != nil {
		text = bytes.NewReader(marshal(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/_simulator/"+verb+"?"+query.Encode(), text)
	if err != nil {
		return fmt.Errorf("simulator: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("simulator: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it is read to its end below
	return readControl(resp, verb, into)
}

func readControl(resp *http.Response, verb string, into any) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostControlBytes))
	if err != nil {
		return fmt.Errorf("simulator: %s: %w", verb, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		var said struct{ Error replyError }
		if json.Unmarshal(text, &said) != nil || said.Error.Message == "" {
			return fmt.Errorf("simulator: %s: %s", verb, resp.Status)
		}
		return errors.New("simulator: " + verb + ": " + said.Error.Message)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
