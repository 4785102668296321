# Castor's commands. Each target is one line; the work is in Go and in scripts.
BIN := bin
LINKS := mqnamesrv mqbroker

build: ## build bin/castor and the names it is known by
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/castor ./cmd/castor
	@for l in $(LINKS); do ln -sf castor $(BIN)/$$l; done

.PHONY: build
