# Castor's commands. Each target is one line; the work is done by Go and by the scripts it calls.
BIN   := bin
LINKS := mqnamesrv mqbroker mqcontroller mqadmin
PKGS  := ./...

build: ## build bin/castor and the names it is also known by
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/castor ./cmd/castor && for l in $(LINKS); do ln -sf castor $(BIN)/$$l; done

dev: build ## run a whole cluster in one process and watch a message travel through it
	$(BIN)/castor dev

test: ## every test that needs Go alone
	go test -short -timeout 9m $(PKGS)

race: ## the same tests under the race detector
	go test -short -race -timeout 15m $(PKGS)

sim: ## a group of replicas in virtual time and everything that can go wrong with it: SEEDS=1000 of them from SEED=1 on
	GOGC=400 SEED=$(or $(SEED),1) SEEDS=$(or $(SEEDS),1000) go test -count=1 -v -timeout 60m -run TestGroup ./tests/sim

bugs: ## faults put into the code on purpose, each of which the simulation must find
	GOGC=400 go test -count=1 -v -tags bugs -timeout 60m -run TestBugsAreCaught ./tests/sim

fuzz: ## every fuzz target for a few seconds
	scripts/fuzz

verify: ## formatting, vet, lint, generated files, layers
	scripts/verify

interop: build ## official clients and tools against a real cluster; PEER=1 runs the same against the Java broker
	tests/interop/run

chaos: build ## break a cluster of processes in many ways; ROUNDS=n
	$(BIN)/castor chaos -rounds $(or $(ROUNDS),20)

bench: build ## figures as ratios against the Java broker, one broker at a time, same client
	tests/bench/run

generate: ## write generated files anew
	go generate ./... && go run ./internal/gen/confdocs && go run ./internal/gen/headers

clean: ## remove what was built
	rm -rf $(BIN) out

help: ## this list
	@grep -E '^[a-z]+:.*## ' Makefile | sed -E 's/:[^#]*## /	/'

.DEFAULT_GOAL := build
.PHONY: build dev test race sim bugs fuzz verify interop chaos bench generate clean help
