"""Reads what NVIDIA's assembler says of kernels (-Xptxas -v), and writes a table in Markdown of
registers, spilled bytes and shared memory, by kernel and architecture, into a document, between the
lines <!-- resources --> and <!-- end -->. Without a document it writes to standard output. It fails if
anything spills."""

import re
import sys

KERNELS = ("lstm", "head", "stem", "crf", "ctc")  # of the library, in the table's order
rows: dict[tuple[str, ...], dict[str, str]] = {}
kernel = target = ""
spilled = spills = 0
for line in sys.stdin:
    if m := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
        kernel, target = m.groups()
    elif m := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
        spills += int(m[1]) + int(m[2])
        spilled = int(m[1]) + int(m[2])
    elif (m := re.search(r"Used (\d+) registers", line)) and re.match(rf"_Z1[01]({'|'.join(KERNELS)})_kernel", kernel):
        rows.setdefault(kernel, {})[target] = f"{m[1]}, {spilled}"


def row(width: int) -> int:
    return 4 * 16 * (width + 8) * 2


def describe(name: str) -> tuple[str, str, str]:
    """The kernel, what it is for and its shared memory, of a mangled name."""
    if m := re.match(r"_Z11lstm_kernelILi(\d+)ELi(\d+)E", name):
        width, tiles = int(m[1]), int(m[2])
        cells = -(-(width // 8) // 8) * tiles * 4 * 256 * 4
        states = row(width) * tiles
        shared = f"{states:,} + {cells:,} cells" if width else "by width"
        return f"`LSTM`, {width} wide" if width else "`LSTM`, any width", f"{16 * tiles} windows", shared
    if m := re.match(r"_Z11head_kernelILi(\d+)E", name):
        tiles = int(m[1])
        return "`Head`", f"{16 * tiles} rows", f"{tiles} x 32 x (width + 8)"
    if m := re.match(r"_Z11stem_kernelILi(\d+)E", name):
        return "`Stem`", f"{16 * int(m[1])} frames", "by strides and taps"
    if m := re.match(r"_Z10crf_kernelILi(\d+)E([ft])Lb([01])E", name):
        states, beam = int(m[1]), m[3] == "1"
        warp = 4 * states * (2 if beam else 4) + 32 + (160 * 20 + 64 if beam else 0)
        warps = 4 if warp <= 12 << 10 else 2 if warp <= 24 << 10 else 1
        what = f"`CRF`, {states:,} states" if states else "`CRF`, any number of states"
        what += ", beam" if beam else ", no beam"
        what += ", half floats" if m[2] == "t" else ""
        return what, f"{warps} windows" if states else "1 to 4 windows", f"{warp * warps:,}" if states else "by states"
    if m := re.match(r"_Z10ctc_kernelI([ft])E", name):
        return "`CTC`" + (", half floats" if m[1] == "t" else ""), "4 windows", f"{4 * (160 * 16 + 64):,}"
    return name, "", ""


targets = sorted({t for r in rows.values() for t in r}, key=lambda t: int(re.sub(r"\D", "", t)))
lines = []
lines.append("| kernel | a block | shared memory, bytes | " + " | ".join(f"{t}: registers, spilled" for t in targets) + " |")
lines.append("|---" * (3 + len(targets)) + "|")
for name in sorted(rows, key=lambda n: ([k in n for k in KERNELS].index(True), "Lb0E" in n, [int(x) for x in re.findall(r"Li(\d+)E", n)], n)):
    lines.append("| " + " | ".join([*describe(name), *(rows[name].get(t, "-") for t in targets)]) + " |")
table = "\n".join(lines) + "\n"
if len(sys.argv) > 1:
    with open(sys.argv[1]) as f:
        before, _, rest = f.read().partition("<!-- resources -->\n")
    _, _, after = rest.partition("<!-- end -->")
    with open(sys.argv[1], "w") as f:
        f.write(f"{before}<!-- resources -->\n{table}<!-- end -->{after}")
else:
    print(table, end="")
if spills:
    sys.exit(f"kernels: the compiler spills {spills} bytes")
