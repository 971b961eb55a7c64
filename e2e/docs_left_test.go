package e2e

// leftOut is a command that a page shows and no test of the documents runs, and what it would need.
type leftOut struct{ line, reason string }

const (
	needsContainers       = "needs a container engine; deploy/check.sh builds the images and starts what is in them where there is one"
	needsCluster          = "needs Kubernetes; the tests of deploy/kubecheck hold the manifests to its schemas"
	needsRoot             = "changes the machine; deploy/systemd/install.sh is tested with DESTDIR"
	needsNetwork          = "fetches from the network"
	needsDorado           = "needs ONT's Dorado"
	needsGPU              = "needs a GPU"
	needsSequencer        = "needs MinKNOW; the tests of minknow_test.go play one"
	needsBrowser          = "opens a browser"
	needsAddress          = "needs an address and a token of one's own"
	needsPythonPackages   = "needs packages for Python that no other test does"
	needsMinutes          = "builds or tests all of the project, for minutes"
	needsBiomarkerModel   = "needs a biomarker model, which each makes of tables that may not be passed on; TestPanelAnswersAsItsModelWasTrained has one"
	needsHumanGenome      = "needs a human genome, on whose places the definitions are; TestDiplotypeOfAGVCF has a part of one"
	needsSplicingNetworks = "needs networks that may not be passed on; tests of annotate/network convert and run small ones"
	needsRecordings       = "needs the recordings of which the table's figures are"
	needsRelease          = "needs a release; TestDist unpacks one and runs what is in it"
	needsChaosHistory     = "needs the history of a chaos run"
	needsPassword         = "needs a broker that asks for a password; TestRunWithLeastRights has one"
	needsDeadLetter       = "names a dead letter of one's own; operate_test.go of cmd/pore has some"
	needsOthersModel      = "needs a model of others, which is fetched"
	needsHumanPlace       = "names a place of the human genome"
	needsClock            = "takes its three minutes by the clock"
	needsThatDay          = "needs records of that day; operate_test.go of cmd/pore has some"
	needsTwoCopies        = "needs reads of two copies that differ; TestMethylationByHaplotype has some"
	needsTuberculosis     = "needs the genes of M. tuberculosis H37Rv"
)

// notRun are these commands, by page.
var notRun = map[string][]leftOut{
	"README.md": {
		{"git clone --depth 1 <this repository>", needsNetwork},
		{"make demo", needsMinutes},
		{"make test", needsMinutes},
		{"bin/ingest minknow --brokers kafka:9092 --host sequencer.lab --token-file minknow.token", needsSequencer},
	},
	"docs/attach/adaptive.md": {
		{"bin/ingest minknow --brokers kafka:9092 --host sequencer.lab --token-file minknow.token --adaptive", needsSequencer},
	},
	"docs/attach/minknow.md": {
		{"bin/ingest minknow --brokers kafka:9092 --host sequencer.lab --token-file /etc/porestream/minknow.token --minknow-ca ca.crt --spool /var/spool/porestream", needsSequencer},
		{"make live-load", needsMinutes},
		{"make live-load CHANNELS=512 MINUTES=10 LOAD='--pace 4'", needsMinutes},
	},
	"docs/attach/models.md": {
		{"dorado download --model dna_r10.4.1_e8.2_400bps_hac@v5.0.0", needsDorado},
		{"pip install --no-deps --no-binary :all: --target bonito ont-bonito==0.2.3", needsNetwork},
	},
	"docs/consume/diplotypes.md": {
		{"pore call --ref grch38.fa --ploidy 2 --gvcf -o calls.g.vcf.gz reads.sorted.bam", needsHumanGenome},
		{"pore diplotype --definitions CYP2C19_translation.json --definitions UGT1A1_translation.json calls.g.vcf.gz", needsHumanGenome},
		{"pore run --ref grch38.fa --ploidy 2 --definitions CYP2C19_translation.json --out results reads/", needsHumanGenome},
		{"processor --brokers kafka:9092 --ref grch38.fa --ploidy 2 --definitions CYP2C19_translation.json", needsHumanGenome},
		{"pore consume --brokers kafka:9092 --diplotypes --definitions CYP2C19_translation.json --ref grch38.fa", needsHumanGenome},
	},
	"docs/consume/methylation.md": {
		{"bin/pore consume --brokers kafka:9092 --methylation --haplotype 1 --format bedmethyl --ref ref.fa > 1.bed", needsTwoCopies},
	},
	"docs/consume/watchlists.md": {
		{"pore panel answer --ref hxb2.fa --gff pol.gff3 panel.yaml isolates.tsv", needsBiomarkerModel},
		{"pore panel make tb --ref h37rv.fa --gff h37rv.gff3 who.tsv > tb.yaml", needsTuberculosis},
	},
	"docs/develop/chaos.md": {
		{"make chaos SEED=7 MINUTES=10", needsMinutes},
		{"make chaos SEED=7 MINUTES=60 CHAOS='--recording ../shared/data/train/lambda-r9.blow5'", needsMinutes},
		{"make chaos SEED=7 MINUTES=2 BROKERS=1 CHAOS='--faults kill-processor,kill-ingest --reads 40'", needsMinutes},
		{"make chaos-planted", needsMinutes},
		{"make chaos-virtual SEEDS=5 VIRTUAL_MINUTES=60", needsMinutes},
		{`jq -c 'select(.kind | startswith("fault") or startswith("process"))' chaos/out/7/history.jsonl`, needsChaosHistory},
		{`jq -c 'select(.kind == "sample" and .group == "porestream-basecall" and .partition == 2)' chaos/out/7/history.jsonl`, needsChaosHistory},
	},
	"docs/develop/release.md": {
		{"make dist", needsMinutes},
		{"make dist TARGETS=linux/amd64,linux/arm64", needsMinutes},
		{"make dist-check", needsMinutes},
		{"make vuln", needsMinutes},
		{"GOVULNDB=file:///srv/vulndb make vuln", needsMinutes},
		{"sha256sum --check --ignore-missing SHA256SUMS", needsRelease},
		{"tar -xzf porestream-0.1.0-linux-amd64.tar.gz", needsRelease},
		{"porestream-0.1.0-linux-amd64/bin/pore demo", needsRelease},
	},
	"docs/files/basecalling.md": {
		{"pore bench basecall --device cuda:0 reads.pod5", needsGPU},
		{"pore bench agreement --device cuda:0 reads.pod5", needsGPU},
	},
	"docs/files/demux.md": {
		{"python demux/testdata/errors.py aligned.bam...", needsPythonPackages},
		{"python demux/testdata/oracle.py table reads.fastq...", needsPythonPackages},
		{"python demux/testdata/squiggle.py r9.4_450bps.6mer.model reads.pod5 SQK-RBK004 out.pod5 > truth.tsv", needsPythonPackages},
	},
	"docs/files/evaluating-basecalls.md": {
		{"bin/pore basecall --model r9.4-fast ecoli.pod5 | bin/pore eval basecall --ref MG1655.fa.gz --labels labels.tsv -", needsRecordings},
		{"bin/pore basecall --model r9.4-fast lambda.pod5 | bin/pore eval basecall --ref NEB.fa --labels labels.tsv -", needsRecordings},
		{"bin/pore basecall --model r9.4-fast sarscov2.blow5 | bin/pore eval basecall --ref NC_045512.2.fa -", needsRecordings},
	},
	"docs/files/modified-bases.md": {
		{"pip download --no-deps --no-binary :all: ont-remora==1.1.1 && tar -xzf ont-remora-1.1.1.tar.gz", needsNetwork},
		{"bin/pore model ls ont-remora-1.1.1/src/remora/trained_models", needsOthersModel},
		{"M=ont-remora-1.1.1/src/remora/trained_models/dna_r9.4.1_e8/hac/0.0.0/5mc/CG/v0/modbase_model.onnx", needsOthersModel},
		{"bin/pore basecall --model dna_r10.4.1_e8.2_400bps_hac@v5.0.0 --modified-bases dna_r10.4.1_e8.2_400bps_hac@v5.0.0_5mCG_5hmCG@v3 --format bam run1/ > run1.bam", needsOthersModel},
		{"bin/pore model convert --out 5mCG_5hmCG.onnx --basecaller any dna_r10.4.1_e8.2_400bps_hac@v5.0.0_5mCG_5hmCG@v3", needsOthersModel},
		{"bin/pore basecall --model dna_r10.4.1_e8.2_400bps_hac@v4.1.0 --modified-bases DeepMod2/src/models/transformer/R10.4.1_4kHz_v4.1 --format bam run1/ > run1.bam", needsOthersModel},
	},
	"docs/files/networks.md": {
		{"pore annotate --ref ref.fa --gff genes.gff3 --network openspliceai-80nt calls.vcf > scored.vcf", needsSplicingNetworks},
		{"pore annotate --ref ref.fa --gff genes.gff3 --network splicing,regulation --format json calls.vcf", needsSplicingNetworks},
		{"pore model convert --out openspliceai-10000nt --licence GPL-3.0 model_10000nt_rs1*.pt", needsSplicingNetworks},
		{"pore model convert --out spliceai --licence CC-BY-NC-4.0 spliceai[1-5].h5", needsSplicingNetworks},
		{"pore model convert --out ci-spliceai --licence CC-BY-4.0 cispliceai/data/CI-SpliceAI.pb", needsSplicingNetworks},
		{"pore annotate --ref ref.fa --gff genes.gff3 --network openspliceai-10000nt calls.vcf > scored.vcf", needsSplicingNetworks},
	},
	"docs/files/simulation.md": {
		{"pore simulate folder --ref lambda.fa --profile r10.4.1-2pct --variants snp=40,indel=10 --duration 3m --out run1 --truth truth", needsClock},
	},
	"docs/files/sources.md": {
		{"pore sources lookup --ref GRCh38.fa --source clinvar.pss 7:140753336:A:T", needsHumanPlace},
	},
	"docs/operate/deployment.md": {
		{"sudo deploy/systemd/install.sh", needsRoot},
		{"sudo cp reference.fa genes.gff3 /srv/porestream/", needsRoot},
		{"sudoedit /etc/porestream/processor.env", needsRoot},
		{"sudoedit /etc/porestream/sources.yaml", needsRoot},
		{"sudo systemctl enable --now porestream-ingest porestream-processor porestream.target", needsRoot},
		{"docker build -f deploy/docker/Dockerfile --target demo -t porestream:demo .", needsContainers},
		{"kind load docker-image porestream:demo", needsCluster},
		{"kubectl apply -k deploy/kubernetes/overlays/cpu-demo", needsCluster},
		{"kubectl -n porestream rollout status deployment/processor", needsCluster},
		{"kubectl -n porestream exec deploy/processor -- pore consume --brokers kafka:9092", needsCluster},
		{"kubectl -n porestream port-forward deploy/processor 9102 &", needsCluster},
		{"kubectl -n porestream logs deploy/processor | sed -n 's|^live page: http://[^/]*|http://localhost:9102|p'", needsCluster},
		{"kubectl apply -k deploy/kubernetes/setup/production", needsCluster},
		{"kubectl -n porestream wait --for=condition=complete job --all --timeout=5m", needsCluster},
		{"kubectl -n porestream logs job/topics", needsCluster},
		{`kubectl -n porestream create secret generic page --from-literal=token="$(openssl rand -hex 16)"`, needsCluster},
		{"kubectl -n porestream port-forward service/page 9102:80", needsCluster},
	},
	"docs/operate/devices.md": {
		{"pore bench agreement --device cuda:0 reads.pod5", needsGPU},
		{"make gpu", needsMinutes},
		{"make gpu-measure", needsMinutes},
		{"make gpu-report PRICE=0.30", needsMinutes},
		{"pore bench basecall --device cuda:0 reads.pod5", needsGPU},
	},
	"docs/operate/gpu-kernels.md": {
		{"PORESTREAM_KERNELS=$PWD/.deps/kernels/libporestream_ops.so pore model verify --device cuda:0 r9.4-hac", needsGPU},
		{"make kernels", needsMinutes},
	},
	"docs/operate/live-page.md": {
		{`xdg-open "http://localhost:9102/?token=$(cat page.token)"`, needsBrowser},
	},
	"docs/operate/operations.md": {
		{"docker compose -f deploy/compose/compose.yaml --profile play up --build --detach", needsContainers},
		{"docker compose -f deploy/compose/compose.yaml ps", needsContainers},
		{"docker compose -f deploy/compose/compose.yaml logs -f ingest processor", needsContainers},
		{"docker compose -f deploy/compose/compose.yaml logs --no-log-prefix processor | sed -n 's|.*live page: http://[^/]*|http://localhost:9102|p'", needsContainers},
		{"docker compose -f deploy/compose/compose.yaml -f deploy/compose/compose.cuda.yaml up --build --detach", needsContainers},
		{"pore dlq show --brokers kafka:9092 3/128 --raw record.bin", needsDeadLetter},
		{"pore replay --brokers kafka:9092 --stage variant --from 2026-11-21T09:00:00Z --dry-run", needsThatDay},
		{"pore replay --brokers kafka:9092 --stage variant --from 2026-11-21T09:00:00Z", needsThatDay},
		{"pore consume --brokers kafka:9092 --topic-prefix again.", needsThatDay},
	},
	"docs/operate/security.md": {
		{"pore acls --role consumer  --principal User:lims --brokers kafka:9092 --sasl-mechanism SCRAM-SHA-512 --sasl-user admin --sasl-password-file admin.txt --apply", needsPassword},
	},
	"docs/operate/traces.md": {
		{"go tool pprof http://127.0.0.1:9102/debug/pprof/profile", needsMinutes},
		{"go tool pprof http://any:TOKEN@host:9102/debug/pprof/heap", needsMinutes},
		{`curl -H "Authorization: Bearer $TOKEN" -o trace.out http://host:9102/debug/pprof/trace?seconds=5`, needsAddress},
	},
}
