#!/usr/bin/env python3
"""Writes what measure.py measured as Markdown: a table of the CPU and the GPU, with what a human genome takes of
both, and then each section."""

import argparse
import json
import pathlib
import sys

GENOME, DEPTH = 3.1e9, 30  # bases


def cell(v):
    if v is None:
        return "-"
    if isinstance(v, bool):
        return "yes" if v else "no"
    if isinstance(v, float) or (isinstance(v, int) and abs(v) >= 10_000):
        return f"{v:,.4g}" if abs(v) < 10_000 else f"{v:,.3g}" if abs(v) >= 1e9 else f"{v:,.0f}"
    return str(v).replace("|", "/").replace("\n", " ")


def table(rows):
    """Rows that are dicts of plain values, with all their keys as columns."""
    keys = list(dict.fromkeys(k for r in rows for k, v in r.items() if not isinstance(v, (dict, list))))
    yield "| " + " | ".join(k.replace("_", " ") for k in keys) + " |"
    yield "|---" * len(keys) + "|"
    for r in rows:
        yield "| " + " | ".join(cell(r.get(k)) for k in keys) + " |"


def throughput(section):
    """Of what pore bench basecall gives."""
    for row in section.get("rows", []):
        if isinstance(row.get("all_cores"), dict):
            return row["all_cores"]
    return None


def identities(sections, model):
    """By precision, of what pore bench agreement gives."""
    found = {}
    for row in sections.get(f"agreement {model}", {}).get("rows", []):
        for d in row.get("devices", []):
            if d.get("scores") == "fp32":
                found[d["precision"]] = d["identity"]
    return found


def both(result, price):
    """The table of CPU and GPU: a row for each that was measured."""
    sections = result["sections"]
    lines = [
        "| model | on | samples/s of reads | W | J for a million bases | kWh, cost of a human genome at 30x | agreement with the CPU's fp32 |",
        "|---|---|---|---|---|---|---|",
    ]
    models = list(dict.fromkeys(n.split()[1] for n in sections if n.startswith(("cpu ", "gpu "))))
    some = False
    for model in models:
        rows = []
        if (t := throughput(sections.get(f"cpu {model}", {}))) is not None:
            watts = sections[f"cpu {model}"].get("cpu_watts")
            joule = watts / (t["bases_per_s"] / 1e6) if watts and t.get("bases_per_s") else None
            rows.append((f"CPU, {result['cores']} cores, {t['precision']}", t, watts, joule, None))
        of_gpu = [(n, t) for n in sections if n.startswith(f"gpu {model} ") and (t := throughput(sections[n]))]
        if of_gpu:
            name, t = max(of_gpu, key=lambda x: x[1]["read_samples_per_s"])
            g = t.get("gpu") or {}
            rows.append((f"{t['device']}, {t['precision']}, batches of {t['batch']}", t, g.get("watts"), g.get("joules_per_megabase"), identities(sections, model).get(t["precision"])))
        for on, t, watts, joule, identity in rows:
            some = True
            kwh = joule * GENOME * DEPTH / 1e6 / 3.6e6 if joule else None
            lines.append("| " + " | ".join([
                f"`{model}`", on, cell(round(t["read_samples_per_s"])), cell(watts), cell(joule),
                "-" if kwh is None else f"{kwh:,.3g} kWh, {kwh * price:,.2f}", "-" if identity is None else f"{100 * identity:.3f} %",
            ]) + " |")
    return lines if some else []


def report(result, price):
    s = result["sections"]
    yield f"# Measured on {result['device']}"
    yield ""
    yield f"`make gpu-measure` on {result['date']}: {result['program']}; {result['processor']}, {result['cores']} cores; reads of {result['recording']}."
    for row in s.get("card", {}).get("rows", []):
        yield f"{row['name']}, compute capability {row['capability']}, {row['multiprocessors']} multiprocessors, CUDA {row['driver_cuda']} of the driver."
    for line in s.get("driver", {}).get("text", []):
        yield f"Driver: {line}."
    if lines := both(result, price):
        yield ""
        yield "## CPU and GPU"
        yield ""
        yield from lines
        yield ""
        yield f"Energy is that of the processors, or of the GPU alone; a kWh costs {price:.2f}. A genome is {GENOME / 1e9:.1f} Gb."
    yield ""
    yield "## Sections"
    for name, section in s.items():
        yield ""
        yield f"### {name}"
        yield ""
        yield f"`{section.get('command', '')}`" + (f", {section['seconds']} s" if "seconds" in section else "")
        rows = [throughput({"rows": [r]}) or r for r in section.get("rows", [])]
        rows = [d for r in rows for d in (r["devices"] if isinstance(r.get("devices"), list) else [r])]
        if rows and name not in ("card",):
            yield ""
            yield from table(rows)
        if name in ("racecheck", "memcheck", "ncu") and section.get("text"):
            yield ""
            yield from ("    " + line for line in section["text"][-12:])
        if "error" in section:
            yield ""
            yield f"**It failed:** {section['error']}"


def refuse(path, what):
    sys.exit(f"report: {path}: {what}; make gpu-measure writes such a file")


def read(path):
    """The results, if they have the shape that measure.py gives them."""
    try:
        result = json.loads(path.read_text())
    except OSError as e:
        refuse(path, e.strerror)
    except ValueError as e:
        refuse(path, f"not JSON: {e}")
    if not isinstance(result, dict):
        refuse(path, f"an object was expected, not {json.dumps(result)[:40]}")
    for key in ("date", "device", "program", "processor", "cores", "recording", "sections"):
        if key not in result:
            refuse(path, f"it has no {key!r}")
    if not isinstance(result["sections"], dict):
        refuse(path, f"'sections' is no object but {json.dumps(result['sections'])[:40]}")
    for name, section in result["sections"].items():
        rows = section.get("rows", []) if isinstance(section, dict) else None
        if not isinstance(rows, list):
            refuse(path, f"section {name!r} is no object with rows but {json.dumps(section)[:40]}")
        for row in rows:
            if not isinstance(row, dict):
                refuse(path, f"a row of section {name!r} is no object but {json.dumps(row)[:40]}")
    return result


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--price", type=float, default=0.25, help="of a kWh")
    p.add_argument("results", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path, nargs="?")
    a = p.parse_args()
    text = "\n".join(report(read(a.results), a.price)) + "\n"
    if a.out:
        a.out.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
