"""Networks that recipes name come from the project's history, and are what they were."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path("train/basecall/checkpoints")
SCRIPT = ROOT / "scripts/checkpoints.sh"
HEADER = "file\tbytes\tsha256\tgit object\n"


def listed() -> dict[str, list[str]]:
    rows = [line.split("\t") for line in (ROOT / FOLDER / "files.tsv").read_text().splitlines()]
    assert "\t".join(rows[0]) + "\n" == HEADER
    return {row[0]: row[1:] for row in rows[1:]}


def test_what_recipes_name_is_listed_and_nothing_else():
    named = set()
    for recipe in (ROOT / "train/basecall/recipes").glob("*.toml"):
        named |= set(re.findall(r'"\.\./checkpoints/([^"]+)"', recipe.read_text()))
    # Where the next fast model goes on from, as the README says; no recipe does yet.
    assert named | {"r9.4-fast-generalised.onnx"} == set(listed())


def test_files_that_are_there_are_those_listed():
    for name, (size, digest, _) in listed().items():
        path = ROOT / FOLDER / name
        if path.exists():
            data = path.read_bytes()
            assert (str(len(data)), hashlib.sha256(data).hexdigest()) == (size, digest), name


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A repository whose history has two networks that its tree no longer has."""
    origin = tmp_path / "origin"
    (origin / FOLDER).mkdir(parents=True)
    git(origin, "init", "-q", "-b", "main")
    table = HEADER
    for name in ["a.onnx", "b.onnx"]:
        data = name.encode() * 1000
        (origin / FOLDER / name).write_bytes(data)
        sha1 = git(origin, "hash-object", str(origin / FOLDER / name))
        table += f"{name}\t{len(data)}\t{hashlib.sha256(data).hexdigest()}\t{sha1}\n"
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "with networks")
    git(origin, "rm", "-q", "--cached", *(str(FOLDER / name) for name in ["a.onnx", "b.onnx"]))
    (origin / FOLDER / "files.tsv").write_text(table)
    git(origin, "add", str(FOLDER / "files.tsv"))
    git(origin, "commit", "-qm", "without")
    return origin


def clone(origin: Path, to: Path, *words: str) -> Path:
    subprocess.run(["git", "clone", "-q", *words, f"file://{origin}", str(to)], check=True)
    (to / "scripts").mkdir()
    shutil.copy(SCRIPT, to / "scripts")
    return to


def run(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(folder / "scripts/checkpoints.sh"), *names], capture_output=True, text=True)


@pytest.mark.parametrize("depth", [[], ["--depth", "1"]])
def test_they_come_from_full_and_shallow_clones(history: Path, tmp_path: Path, depth: list[str]):
    here = clone(history, tmp_path / "clone", *depth)
    done = run(here, "b.onnx")
    assert done.returncode == 0, done.stderr
    assert (here / FOLDER / "b.onnx").read_bytes() == b"b.onnx" * 1000
    assert not (here / FOLDER / "a.onnx").exists()
    done = run(here)
    assert done.returncode == 0, done.stderr
    assert (here / FOLDER / "a.onnx").read_bytes() == b"a.onnx" * 1000


def test_what_is_wrong_is_one_line(history: Path, tmp_path: Path):
    here = clone(history, tmp_path / "clone")
    table = here / FOLDER / "files.tsv"
    right = table.read_text()
    done = run(here, "c.onnx")
    assert (done.returncode, done.stderr) == (1, f"checkpoints: {FOLDER}/files.tsv lists no c.onnx\n")
    digest, sha1 = right.splitlines()[1].split("\t")[2:]
    table.write_text(right.replace(digest, "0" * 64))
    done = run(here, "a.onnx")
    said = f"checkpoints: a.onnx of the history is not the file that {FOLDER}/files.tsv describes\n"
    assert (done.returncode, done.stderr) == (1, said)
    table.write_text(right.replace(sha1, "1" * 40))
    done = run(here, "a.onnx")
    said = "checkpoints: a.onnx is in the project's git history, which this folder doesn't have: use a full clone\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert not list((here / FOLDER).glob("*.onnx*"))
