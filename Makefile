GO        ?= go
FUZZTIME  ?= 10s
FUZZTOTAL ?= 600s
LINTERS   := bin/lint

.DEFAULT_GOAL := help
.PHONY: help build test fuzz mutants lint bench demo tidy

help: ## print what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/onejob
	$(GO) build -o bin/onejob ./cmd/onejob

test: ## run every test against real Temporal and real Postgres
	$(GO) build -race ./...
	$(GO) run ./dev/withservers -- $(GO) test -race -p 1 -timeout 20m ./...

fuzz: ## run each fuzz test for FUZZTIME (10s), all within FUZZTOTAL (600s)
	FUZZTIME=$(FUZZTIME) FUZZTOTAL=$(FUZZTOTAL) $(GO) run ./dev/withservers --headless -- .ci/fuzz

mutants: ## put known mistakes back, one by one: their tests must turn red; RUN=name or SHARE=1/3 picks
	$(GO) run ./dev/withservers --headless -- $(GO) run ./mutants -run '$(RUN)' -share $(or $(SHARE),1/1)

lint: $(LINTERS)/staticcheck $(LINTERS)/workflowcheck ## check formatting, vet, staticcheck, determinism of workflows
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt these:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(LINTERS)/staticcheck ./...
	$(LINTERS)/workflowcheck -config workflows/workflowcheck.yaml ./workflows/...

$(LINTERS)/%: tools/lint/go.mod tools/lint/go.sum
	@mkdir -p $(LINTERS)
	cd tools/lint && $(GO) build -o ../../$(LINTERS)/ tool

bench: ## measure, and compare with floors measured in the same run
	$(GO) run ./bench
	$(GO) run ./bench -door

demo: ## the whole story on this machine; KEEP=1 leaves the servers up
	$(GO) run ./cmd/onejob demo $(if $(filter-out 0,$(KEEP)),--keep)

tidy: ## tidy all modules, and the copies that package dev has of the pinned one
	$(GO) mod tidy
	cd tools && $(GO) mod tidy
	cd tools/lint && $(GO) mod tidy
	cd tools/server && $(GO) mod tidy
	cp tools/go.mod dev/pinned/tools.mod
	cp tools/go.sum dev/pinned/tools.sum
