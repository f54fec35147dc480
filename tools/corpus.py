#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Minimises the corpora of the fuzz targets: tools/corpus.py [TARGET...]; without a TARGET, all of them.

Builds each target, writes the seeds of tests/fuzz/seed_corpus.py anew, and keeps of these and of the committed corpus
the fewest files that reach as much: libFuzzer's features, which are the edges and how often each is taken. Findings
(found_*) stay in any case. Run it after a format or seed_corpus.py has changed. Of a target that keeps something from
one input to the next, the last few features vary.
"""

import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPORA = ROOT / "tests" / "fuzz" / "corpus"
BUILD = ROOT / "build" / "fuzz"
FINDING = "found_"


def all_targets():
    cmake = (ROOT / "tests" / "fuzz" / "CMakeLists.txt").read_text()
    return re.findall(r"^fusewire_fuzzer\((\w+)", cmake, re.MULTILINE)


def digest(path):
    return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()


def fuzz(target, *arguments):
    """What libFuzzer says."""
    program = [str(BUILD / "bin" / f"fuzz_{target}"), "-rss_limit_mb=1024", "-seed=1", *map(str, arguments)]
    ran = subprocess.run(program, cwd=BUILD, capture_output=True, text=True, errors="replace", check=False)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(program)} failed:\n{ran.stderr[-3000:]}")
    return ran.stderr


def reach(target, *folders):
    """The edges and features that the files of the folders reach."""
    said = re.findall(r"INITED cov: (\d+) ft: (\d+)", fuzz(target, "-runs=0", *folders))
    return tuple(map(int, said[-1])) if said else (0, 0)


def minimise(target, seeds, work):
    """Replaces the corpus. Returns the files, edges and features before and after."""
    corpus, pool, least = CORPORA / target, work / "pool", work / "least"
    for folder in (corpus, pool, least):
        folder.mkdir(parents=True, exist_ok=True)
    committed = sorted(path for path in corpus.iterdir() if path.is_file())
    fresh = sorted((seeds / target).iterdir()) if (seeds / target).is_dir() else []
    for path in [*committed, *fresh]:  # a seed replaces the file of its name
        shutil.copyfile(path, (least if path.name.startswith(FINDING) else pool) / path.name)
    names = {digest(path): path.name for path in sorted(pool.iterdir())}
    before = (len(list(pool.iterdir())) + len(list(least.iterdir())), *reach(target, least, pool))
    fuzz(target, "-set_cover_merge=1", least, pool)
    after = (len(list(least.iterdir())), *reach(target, least))
    for path in committed:
        path.unlink()
    for path in least.iterdir():
        name = path.name if path.name.startswith(FINDING) else names[digest(path)]
        shutil.copyfile(path, corpus / name)
    return before, after


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    targets = parser.parse_args().targets or all_targets()
    wanted = [f"--target=fuzz_{target}" for target in targets]
    subprocess.run([ROOT / "tools" / "build.sh", "fuzz", *wanted], check=True)
    work = BUILD / "corpora"
    shutil.rmtree(work, ignore_errors=True)
    subprocess.run([sys.executable, ROOT / "tests" / "fuzz" / "seed_corpus.py", work / "seeds"], check=True)
    print("| target | files | edges | features |\n|---|---|---|---|")
    sums = [0, 0]
    for target in targets:
        before, after = minimise(target, work / "seeds", work / target)
        cells = [f"{was} -> {now}" for was, now in zip(before, after, strict=True)]
        print(f"| `{target}` | {' | '.join(cells)} |", flush=True)
        sums = [sums[0] + before[0], sums[1] + after[0]]
    print(f"{sums[0]} files, of which {sums[1]} are kept")


if __name__ == "__main__":
    main()
