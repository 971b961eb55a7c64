# Porestream. `make demo` and `make test` are all that a fresh clone needs; both
# fetch what they link against (scripts/deps.sh) on their first run.

GO ?= go
tools := .cache/bin
golangci_version := v2.15.0
gotestsum_version := v1.13.0

.PHONY: all build train-basecall checkpoints genes-prior demo live live-reads adaptive minknow-python screenshots axe test test-deploy test-short test-kafka kafka chaos chaos-build chaos-planted chaos-virtual nightly soak live-load eval-diploid eval-lambda eval-planted eval-events eval-genes eval-biomarker eval-splice fuzz bench bench-watching lint fmt deps docs man gpu dist dist-check vuln proto clean help

all: build

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

deps: ## fetch ONNX Runtime and build minimap2, once, into .deps/
	@./scripts/deps.sh

build: deps ## build bin/ingest, bin/processor and bin/pore
	$(GO) build -o bin/ ./cmd/...

demo: build ## play a real recording and compare its variants with the truth
	@bin/pore demo

DROP ?= 0
live: build minknow-python ## sequence on a simulated MinKNOW in real time, and say how soon variants are called; DROP=0.05 leaves out chunks
	$(GO) build -o bin/ ./e2e/live
	@bin/live --drop $(DROP) $(LIVE)

live-reads: MINUTES = 3
live-reads: build ## write called reads of 24 barcodes as MinKNOW does, for MINUTES, and say how soon they have effect on calls
	$(GO) build -o bin/ ./e2e/live
	@bin/live reads --duration $(MINUTES)m $(LIVE)

adaptive: CHANNELS = 64
adaptive: MINUTES = 2
adaptive: deps minknow-python ## sequence lambda and E. coli on a simulated MinKNOW and keep lambda, for MINUTES over CHANNELS channels; prints latency and enrichment
	PORESTREAM_ADAPTIVE=$(CHANNELS):$(MINUTES)m PORESTREAM_MINKNOW_PYTHON=$${PORESTREAM_MINKNOW_PYTHON:-$(CURDIR)/.cache/minknow/bin/python} \
		$(GO) test -count 1 -v -timeout 60m -run TestEnrichment ./e2e

minknow := .cache/minknow
minknow-python: $(minknow)/bin/python ## make the environment that the simulated MinKNOW runs in
$(minknow)/bin/python:
	python3 -m venv $(minknow)
	$@ -m pip install --quiet --disable-pip-version-check minknow-api==6.10.3 grpcio==1.85.1 protobuf==6.33.6 numpy==2.4.6 || { rm -rf $(minknow); exit 1; }

screenshots: build ## play the demo and take pictures of its live page with Chromium, into docs/operate/screenshots/
	$(GO) run ./monitor/page/screenshots

axe := .cache/axe
axe: $(axe)/node_modules/axe-core/axe.min.js ## fetch axe-core, which the live page's tests look for barriers with
$(axe)/node_modules/axe-core/axe.min.js:
	npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix $(axe) axe-core@4.14.1

# The programs' tests wait the longest, so they begin first and the others run beside them, and then those that wait for brokers and sequencers.
PACKAGES ?= ./e2e ./stream/kafka ./ingest/minknow ./monitor/page ./cmd/pore ./stream/streamtest ./ingest/cluster ./...
# Packages that calculate and start no goroutine: the race detector would find nothing in them and make them ten times slower. With RACE they
# are tested without it, and what the other packages use of them is compiled without it; with PORESTREAM_TEST_ALL, as every night, it looks at all.
# e2e/calculating_test.go holds the lists to that.
calculating := align align/hts/cram/codec annotate/haplotype annotate/hgvs annotate/network/convert annotate/score basecall/convert basecall/crf basecall/kernels docs e2e/events \
	internal/porefit modbase/motif modbase/pileup modbase/record modbase/stage signal/hdf5 signal/internal/inflate signal/internal/runinfo simulate simulate/eventalign simulate/squiggle \
	variant variant/eval variant/phase vcf vcf/filter vrs watchlist
# Those whose own tests start none either, and which the goroutines of others share: in those others' tests the race detector looks at them.
shared := align/hts align/hts/cram deploy/sizing demux modbase/aligned monitor scripts/dist signal/fast5 signal/vbz stream/snapshot variant/carryover watchlist/stage
# Of these the race detector looks at all tests but those that calculate for long (testenv.CalculatesLong), and all are tested without it, too.
twice := annotate genes internal/pipeline
# What these start is built without the race detector in any case; the brokers and clients that they have at hand are in others' tests.
programs := e2e
ours := github.com/porestream/porestream/
uninstrumented := $(if $(PORESTREAM_TEST_ALL),,$(calculating:%=-gcflags=$(ours)%=-race=false))
race := $(if $(RACE),-race $(uninstrumented))
tested = $(if $(RACE),$(or $(shell $(GO) list $(PACKAGES)),$(error go list $(PACKAGES) finds no package)),$(PACKAGES))
untouched = $(if $(PORESTREAM_TEST_ALL),,$(filter $(addprefix $(ours),$1),$(tested)))
starts = $(call untouched,$(programs))
calculate = $(call untouched,$(calculating) $(shared) $(twice))
others = $(filter-out $(starts) $(call untouched,$(calculating) $(shared)),$(tested))
# While programs wait for one another, one package more than there are processors has something to do.
AT_ONCE ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# make lint vets. go test would do it once more, with the dependencies of every package, and again for the race detector. What debuggers read
# takes two fifths of the time that linking a test takes.
unvetted := -vet=off -ldflags=-w
# Every night nothing is taken from go test's cache.
anew := $(if $(PORESTREAM_TEST_ALL),-count 1)
# $(call gotest,PACKAGES,FLAGS,NAME)
ifdef RERUN
gotest = $(tools)/gotestsum --format pkgname --hide-summary skipped --rerun-fails=$(RERUN) --rerun-fails-max-failures 4 --jsonfile .cache/tests-$3.json \
	--rerun-fails-run-root-test --rerun-fails-abort-on-data-race --rerun-fails-report .cache/failed-once-$3 --packages "$1" -- $(unvetted) $(anew) -p $(AT_ONCE) $2 -timeout 40m
else
gotest = $(GO) test $(unvetted) $(anew) -p $(AT_ONCE) $2 -timeout 40m $1
endif
test: tests-begin ## run all tests; RACE=1 with the race detector, RERUN=1 gives those that fail a second chance, and names them
	@for part in programs calculating others; do $(MAKE) --no-print-directory test-$$part || exit; done
	@$(MAKE) --no-print-directory tests-end

.PHONY: tests-begin tests-end test-programs test-calculating test-others tools
# .ci/run has the programs' tests beside the others, and what calculates beside what waits.
tests-begin: deps $(if $(RERUN),tools)
	@mkdir -p .cache && rm -f .cache/failed-once-* .cache/tests-*.json

test-programs: deps
	$(if $(starts),$(call gotest,$(starts),,programs))

test-calculating: deps
	$(if $(calculate),$(call gotest,$(calculate),,calculating))

# What these two leave.
test-others: deps
	$(if $(others),$(call gotest,$(others),$(race),others))
	@$(MAKE) --no-print-directory test-deploy

# Which tests failed once, and which took the longest.
tests-end:
	@$(if $(RERUN),cat .cache/failed-once-* 2>/dev/null; echo "the slowest tests:" && cat .cache/tests-*.json | $(tools)/gotestsum tool slowest --num 10,:)

# Modules of their own, so that what they check with is no dependency of Porestream. Without the network, and before their dependencies have been
# fetched once, they are left out; where CI is set that is a failure.
checks := deploy/composecheck deploy/kubecheck
test-deploy: ## render the Kubernetes overlays and load the Compose files, and check both
	@for module in $(checks); do \
		cd $(CURDIR)/$$module || exit; \
		if [ "$(CI)" = true ] || $(GO) mod download 2>/dev/null; then $(GO) vet . && $(GO) test $(unvetted) . || exit; \
		else echo "left out: $$module, as the Go modules that it needs can't be fetched" >&2; fi; \
	done

test-short: deps ## run the tests without the race detector and the slow ones
	$(GO) test -short ./...

# What must work with the Kafka that comes next: topics, transactions, fencing, groups, state, clocks, refusals.
KAFKA ?= 4.4.0
kafka_essentials := ^(TestTopics.*|TestTransactionsAreAllOrNothing|TestASecondHolderFences|TestStaleGeneration|TestZombies|TestNoRecordIsOfTheFuture|TestGroupRefusesToStart|TestCommittedOffsetWaitsForTransactions|TestStateIsRestoredFromItsTopic|TestTimesFarFromTheBrokersClockAreRefused)$$/^apache$$
test-kafka: deps ## run the essentials against another Apache Kafka than all tests do, KAFKA=4.4.0
	stream/streamtest/kafka/fetch.sh .cache/kafka-$(KAFKA) $(KAFKA)
	PORESTREAM_KAFKA_LIB=$(CURDIR)/.cache/kafka-$(KAFKA) $(GO) test $(unvetted) -race -count 1 -run '$(kafka_essentials)' ./stream/kafka

# The jars of a real broker, fetched unless PORESTREAM_KAFKA_LIB names some.
kafka_lib := $(or $(PORESTREAM_KAFKA_LIB),$(CURDIR)/.cache/kafka)
with_kafka := $(if $(PORESTREAM_KAFKA_LIB),,stream/streamtest/kafka/fetch.sh $(kafka_lib) &&) PORESTREAM_KAFKA_LIB=$(kafka_lib)

LISTEN ?= 127.0.0.1:9092
kafka: ## run Apache Kafka on this machine, at LISTEN (127.0.0.1:9092), until Ctrl-C; its log is in DATA (.cache/kafka-data)
	$(if $(PORESTREAM_KAFKA_LIB),,@stream/streamtest/kafka/fetch.sh $(kafka_lib))
	@LIB=$(kafka_lib) DATA=$(or $(DATA),$(CURDIR)/.cache/kafka-data) LISTEN=$(LISTEN) scripts/kafka.sh

SEED ?= 1
MINUTES ?= 10
BROKERS ?= 3
SEEDS ?= 5
VIRTUAL_MINUTES ?= 60
chaos: chaos-build ## run the services under faults drawn from SEED for MINUTES over BROKERS brokers, and judge the result
	$(with_kafka) bin/chaos/chaos --bin bin/chaos --seed $(SEED) --length $(MINUTES)m --brokers $(BROKERS) $(CHAOS)

nightly: ## what takes longer than a change should wait for: all of CI, chaos of the day for 20 minutes, hours in virtual time, a soak, fuzzing
	CI=true CI_ALL=1 .ci/run
	$(MAKE) --no-print-directory chaos SEED=$$(date -u +%Y%m%d) MINUTES=20
	$(MAKE) --no-print-directory chaos-virtual SEEDS=8 VIRTUAL_MINUTES=30
	$(MAKE) --no-print-directory soak MINUTES=20
	$(MAKE) --no-print-directory fuzz

chaos-planted: deps ## show that the chaos suite catches each planted bug, and that planted faults of ONNX Runtime are survived
	$(GO) test $(unvetted) -tags planted -count 1 -run '^TestPlantedFaults$$' ./basecall/infer ./variant/network
	$(GO) test $(unvetted) -tags planted -count 1 -v -run TestEveryPlantedBugIsCaught ./chaos/virtual

chaos-virtual: deps ## thousands of crashes and rebalances in virtual time, SEEDS runs of VIRTUAL_MINUTES
	PORESTREAM_VIRTUAL_SEEDS=$(SEEDS) PORESTREAM_VIRTUAL_MINUTES=$(VIRTUAL_MINUTES) $(GO) test $(unvetted) -count 1 -v -timeout 60m -run TestProcessorsComeAndGo ./chaos/virtual

soak: chaos-build build ## sequence for MINUTES without faults; memory, descriptors and lag must stay as they are
	$(with_kafka) bin/chaos/chaos soak --length $(MINUTES)m $(SOAK)

live-load: CHANNELS = 3000
live-load: MINUTES = 2
live-load: ## give ingest a sequencer's full signal, CHANNELS channels for MINUTES, and account for every sample
	$(GO) build -o bin/ ./cmd/ingest
	$(GO) build -o bin/chaos/ ./chaos/load
	bin/chaos/load --channels $(CHANNELS) --length $(MINUTES)m $(LOAD)

chaos-build: deps
	$(GO) build -tags planted -o bin/chaos/ ./cmd/ingest ./cmd/processor ./cmd/pore
	$(GO) build -o bin/chaos/ ./chaos

eval-diploid: build ## call a simulated diploid sample of 2 Mb at 30x and compare with its truth, beside bcftools
	@./scripts/eval-diploid.sh

eval-lambda: build ## call random parts of the reads of lambda, 10x to all, 20 times each, and count what is found and what is wrong
	@./scripts/eval-lambda.sh

eval-planted: build ## call real reads of lambda against references with planted variants, five times, beside bcftools
	@./scripts/eval-planted.sh

eval-events: build ## call simulated reads of samples with MNPs, delins and neighbours, haploid and diploid
	@./scripts/eval-events.sh

eval-genes: build ## find the genes of annotated genomes, beside Pyrodigal, with priors that haven't seen their clades
	@./scripts/eval-genes.sh

eval-splice: build ## score variants by OpenSpliceAI's networks and compare with its own program: DATA=folder
	@./scripts/eval-splice.sh

eval-biomarker: export DATA ?=
eval-biomarker: ## cross-validate a biomarker model beside the rules of its tables, from DATA: RECIPE=hiv1-pol or another of train/biomarker/recipes; MODEL=FOLDER also writes it; DEVICES=cuda trains on GPUs
	@./scripts/eval-biomarker.sh

genes-prior: ## make the prior of gene finding from the annotated genomes in GENES_DATA
	$(GO) run ./train/genes prior $(GENES_DATA)/*.gz $(GENES_DATA)/phages/*.gz > genes/prior.json.new
	mv genes/prior.json.new genes/prior.json
GENES_DATA ?= ../shared/data/genes

train-basecall: export RECIPE ?= r9.4-small
train-basecall: export TRAIN_DATA ?=
train-basecall: ## train a basecaller on the recordings in TRAIN_DATA: RECIPE=r9.4-small, ten minutes on two cores, or another of train/basecall/recipes
	@./scripts/train-basecall.sh

checkpoints: ## bring the networks that recipes begin with or learn from out of the history into train/basecall/checkpoints, 88 MB
	@./scripts/checkpoints.sh

fuzz: deps ## run every fuzz target for FUZZTIME (default 10s) each
	@./scripts/fuzz.sh

# Readers of signal are compared with the formats' own Python packages, where there is
# an interpreter that has them: pip install pod5 pyslow5.
bench: export PORESTREAM_LAMBDA_READS ?= $(realpath .cache/eval/planted/reads.fastq)
bench: export PORESTREAM_SIGNAL_PYTHON ?= $(firstword $(wildcard $(CURDIR)/.cache/formats/bin/python) python3)
bench: deps ## run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

gpu: build ## measure basecalling on a GPU (DEVICE=cuda:0) into docs/measured/gpu.md; DEVICE=cpu tries it all on the CPU
	@./scripts/gpu.sh

.PHONY: gpu-measure gpu-report
gpu-measure: build kernels ## measure the GPU, kernels, PyTorch beside them and basecalling in 7 minutes (DEVICE=cuda:0) into docs/measured/gpu.json, and write the report
	@status=0; python3 scripts/gpu/measure.py --device $(or $(DEVICE),cuda:0) $(MEASURE) || status=$$?; $(MAKE) --no-print-directory gpu-report; exit $$status

PRICE ?= 0.25
gpu-report: ## write docs/measured/gpu-kernels.md from the last measurement: CPU against GPU, with energy and cost (PRICE of a kWh) of a human genome
	@python3 scripts/gpu/report.py --price $(PRICE) docs/measured/gpu.json docs/measured/gpu-kernels.md

.PHONY: kernels kernels-cpu kernels-docs
kernels: ## build Porestream's own GPU operators into .deps/kernels/, with NVIDIA's compiler from PyPI (105 MB); no GPU is needed
	@scripts/kernels.sh cuda

kernels-cpu: ## build them for the CPU alone, with the emulator that tests run GPU kernels on
	@scripts/kernels.sh cpu

kernels-docs: ## build the GPU operators and write what they need of a GPU into docs/operate/gpu-kernels.md
	@scripts/kernels.sh docs

bench-watching: build ## what metrics, traces and the live page cost a run
	@bin/pore bench watching --ref testdata/lambda/reference.fa --gff testdata/lambda/genes.gff3 $(BENCH) $(or $(PORESTREAM_RECORDING),testdata/lambda/reads.pod5)

# What Go makes of files with C in them names their folder. With -trimpath it is shared by all checkouts of a machine, and linters would
# look for the files of another one, which may be gone; so GOFLAGS must not ask for that, and the linters' own cache is this checkout's.
lint: export GOFLAGS =
lint: export GOLANGCI_LINT_CACHE = $(CURDIR)/.cache/golangci-lint
lint: deps $(tools)/golangci-lint ## run the linters
	$(tools)/golangci-lint run ./...

fmt: $(tools)/golangci-lint ## format the code
	$(tools)/golangci-lint fmt ./...

docs: deps ## rewrite the lists of commands and metrics in docs/ from their definitions
	$(GO) test ./cmd/... -run '^TestProgram$$' -update-manual
	$(GO) test ./deploy/deploytest -run '^TestMetricsAreDocumented$$' -update

man: build ## write man pages into bin/man
	@mkdir -p bin/man && bin/pore manual bin/man && bin/ingest manual bin/man && bin/processor manual bin/man

TARGETS ?= linux/$(shell $(GO) env GOARCH)
dist: ## make the release's tarball of the current commit in dist/; TARGETS=linux/amd64,linux/arm64 for both
	$(GO) run ./scripts/dist --out dist --target $(TARGETS)

dist-check: deps $(if $(TRIAL),kernels-cpu) ## make it twice, compare the bytes, and run what is in it in an empty folder; TRIAL=1 makes it once of what this machine has compiled for itself
	PORESTREAM_DIST_TRIAL=$(TRIAL) PORESTREAM_DIST=$(TARGETS) $(GO) test $(unvetted) -count 1 -v -timeout 60m -run '^TestDist$$' ./scripts/dist

vuln: ## look for known vulnerabilities in what the programs call; needs the Go vulnerability database
	@./scripts/vuln.sh

proto: ## regenerate the protobuf code (needs protoc, protoc-gen-go and protoc-gen-go-grpc)
	protoc --go_out=. --go_opt=module=github.com/porestream/porestream -I . stream/streampb/porestream.proto stream/streampb/status.proto annotate/annotatepb/annotation.proto basecall/onnxpb/onnx.proto
	protoc --go_out=. --go_opt=module=github.com/porestream/porestream --go-grpc_out=. --go-grpc_opt=module=github.com/porestream/porestream -I . push/pushpb/push.proto ingest/minknow/minknowpb/*.proto

tools: $(tools)/golangci-lint $(tools)/gotestsum

$(tools)/golangci-lint:
	GOBIN=$(CURDIR)/$(tools) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(golangci_version)

$(tools)/gotestsum:
	GOBIN=$(CURDIR)/$(tools) $(GO) install gotest.tools/gotestsum@$(gotestsum_version)

.PHONY: install
install: ## install with systemd units below PREFIX (/usr/local), or into DESTDIR
	@DESTDIR="$(DESTDIR)" PREFIX="$(or $(PREFIX),/usr/local)" deploy/systemd/install.sh

clean: ## remove what was built, but not what was fetched
	rm -rf bin
