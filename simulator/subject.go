package simulator

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// Subject is whose requests are counted: a job's, one attempt's of it, or a key's.
type Subject struct {
	Job     string
	Attempt int // 0: all of the job's
	Key     string
}

// String is the name under which the subject is counted.
func (s Subject) String() string {
	switch {
	case s.Key != "":
		return ofKey(s.Key)
	case s.Attempt == 0:
		return ofJob(s.Job)
	}
	return ofAttempt(s.Job, s.Attempt)
}

func (s Subject) has(job string, attempt int, key string) bool {
	if s.Key != "" {
		return key == s.Key
	}
	return job == s.Job && (s.Attempt == 0 || attempt == s.Attempt)
}

func (s Subject) query() url.Values {
	query := url.Values{}
	if s.Job != "" {
		query.Set("job", s.Job)
	}
	if s.Attempt != 0 {
		query.Set("attempt", strconv.Itoa(s.Attempt))
	}
	if s.Key != "" {
		query.Set("key", s.Key)
	}
	return query
}

// readSubject reads whom a query means: job, job with attempt, or key.
func readSubject(query url.Values) (s Subject, err error) {
	s = Subject{Job: query.Get("job"), Key: query.Get("key")}
	if (s.Job == "") == (s.Key == "") {
		return s, errors.New("name a job or a key")
	}
	if text := query.Get("attempt"); text != "" && s.Key == "" {
		s.Attempt, err = strconv.Atoi(text)
	}
	return s, err
}

func readAwait(query url.Values) (subject Subject, least Counts, timeout time.Duration, err error) {
	if subject, err = readSubject(query); err != nil {
		return
	}
	if least, err = readCounts(query); err != nil {
		return
	}
	if least == (Counts{}) {
		err = errors.New("say how many requests, executions, look_ups, cancels or deliveries to wait for")
		return
	}
	timeout = defaultAwait
	if text := query.Get("timeout"); text != "" {
		timeout, err = time.ParseDuration(text)
	}
	return subject, least, min(timeout, longestAwait), err
}

func readCounts(query url.Values) (counts Counts, err error) {
	for name, count := range map[string]*int{
		"requests": &counts.Requests, "executions": &counts.Executions,
		"look_ups": &counts.LookUps, "cancels": &counts.Cancels, "deliveries": &counts.Deliveries,
	} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		if *count, err = strconv.Atoi(text); err != nil {
			return counts, fmt.Errorf("%s: %w", name, err)
		}
	}
	return counts, nil
}
