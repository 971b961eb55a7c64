#!/usr/bin/env bash
# One would guess: reads that are written to CRAM and read again have the tags that they had, whichever library reads them.
# What happens: where htslib has no reference at hand it makes one of the reads and embeds it (embed_ref=2, by itself since
# 1.16), and then writes a tag cF:C into each record, which no specification names. htslib hides it when it reads; htsjdk,
# on which GATK, Picard and IGV stand, hands it out as a tag of the read. pysam 0.24.1 (htslib 1.24), htsjdk 4.3.0.
# Who is hurt: who compares or hashes reads over both libraries, and who writes BAM from such a CRAM with htsjdk: from then
# on the tag is in the file for everybody, also for samtools.
set -euo pipefail
for tool in mvn java; do
	command -v "$tool" >/dev/null || { echo "$0: $tool is missing (Debian: apt-get install maven default-jdk-headless)" >&2; exit 1; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pysam==0.24.1
cat >pom.xml <<'POM'
<project><modelVersion>4.0.0</modelVersion><groupId>finding</groupId><artifactId>tags</artifactId><version>1</version>
<dependencies><dependency><groupId>com.github.samtools</groupId><artifactId>htsjdk</artifactId><version>4.3.0</version></dependency></dependencies></project>
POM
mvn -q -B dependency:copy-dependencies -DoutputDirectory="$dir/lib"
cat >write.py <<'PYTHON'
import random

import pysam

random.seed(1)
reference = "".join(random.choice("ACGT") for _ in range(1000))
header = {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": "c", "LN": 1000}]}
for path, mode in (("reads.bam", "wb"), ("reads.cram", "wc")):
    with pysam.AlignmentFile(path, mode, header=header) as out:
        for i in range(20):
            read = pysam.AlignedSegment(out.header)
            read.query_name, read.flag, read.reference_id, read.reference_start = f"read{i}", 0, 0, 30 * i
            read.mapping_quality, read.cigarstring = 60, "100M"
            read.query_sequence = reference[30 * i:30 * i + 100]
            read.query_qualities = pysam.qualitystring_to_array("I" * 100)
            read.set_tag("XY", i)
            out.write(read)
for path in ("reads.bam", "reads.cram"):
    first = next(pysam.AlignmentFile(path, check_sq=False))
    print("pysam", path, *(f"{tag}={value}" for tag, value in sorted(first.get_tags())))
PYTHON
cat >ReadTags.java <<'JAVA'
import htsjdk.samtools.SAMRecord;
import htsjdk.samtools.SamReader;
import htsjdk.samtools.SamReaderFactory;
import htsjdk.samtools.cram.ref.ReferenceSource;
import java.io.File;
import java.util.TreeSet;

public class ReadTags {
    public static void main(String[] paths) throws Exception {
        for (String path : paths) {
            try (SamReader reader = SamReaderFactory.makeDefault().referenceSource(new ReferenceSource((File) null)).open(new File(path))) {
                TreeSet<String> tags = new TreeSet<>();
                for (SAMRecord.SAMTagAndValue t : reader.iterator().next().getAttributes()) {
                    tags.add(t.tag + "=" + t.value);
                }
                System.out.println("htsjdk " + path + " " + String.join(" ", tags));
            }
        }
    }
}
JAVA
echo "pysam 0.24.1, htslib $(venv/bin/python -c 'import pysam.version as v; print(v.__htslib_version__)'), htsjdk 4.3.0"
{
	REF_PATH=: REF_CACHE=: venv/bin/python write.py
	java -cp 'lib/*' ReadTags.java reads.bam reads.cram
} 2>/dev/null | tee seen
cat >expected <<'EXPECTED'
pysam reads.bam XY=0
pysam reads.cram XY=0
htsjdk reads.bam XY=0
htsjdk reads.cram XY=0 cF=3
EXPECTED
if ! diff expected seen; then
	echo "the tag is treated otherwise by now" >&2
	exit 1
fi
