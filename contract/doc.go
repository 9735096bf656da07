// Package contract reads contracts, the files that say what a kind of job asks a model
// and what a reply must be, and checks prompts and replies by them.
//
// It promises that a [Contract] can be used as it stands: its templates render for every
// case, its schemas and rules compile, its facts name what a reply has. Everything else is
// refused by [Load], with each problem's file, line and remedy. A contract is identified
// by its SHA256: of its content with defaults filled in and files beside it included, not
// of its spelling.
//
// Certification and production use the same checks, which are values: [Contract.Render]
// gives the prompt, [Contract.CheckReply] and [Contract.CheckCase] a [Verdict]. A reply is
// judged as it came: nothing is repaired, no fence is taken off. [Counter] and [Tokenizer]
// count tokens; package openai has those of OpenAI's models.
//
// The checks are pure and bounded: no network, no clock, no file but those that Load
// reads; replies, schemas, rules and templates have limits of size, depth and cost.
// schema.json ([EditorSchema]) describes the format to editors.
//
// It imports the domain and internal/yamlfile, and nothing else of this module.
package contract

import _ "embed"

// EditorSchema is the JSON Schema of contract files.
//
//go:embed schema.json
var EditorSchema []byte
