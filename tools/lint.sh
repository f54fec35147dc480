#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Static checks: tools/lint.sh [CHECK...]; without a CHECK, all of them.
#   format  clang-format      clang-tidy  see .clang-tidy      python  ruff, mypy      shell  shellcheck
#   tidy    our own rules: tools/tidy.py                   locks  clang's analysis of the plug-in's locks
#   site    the documentation as a site, in build/site: every page is in its menu, every link leads somewhere
#   deploy  manifests, Dockerfile and scripts of deploy/: yamllint, tools/deploy_check.py
#   text    whitespace at the ends of lines and files, which it fixes; links; fragments of changes; no link or ignored
#           file among the tracked ones; tables that are what the kept records say
# `tools/lint.sh --fix` applies clang-format and ruff's formatting instead.
set -euo pipefail
cd "$(dirname "$0")/.."

checks=("$@")
[ ${#checks[@]} -gt 0 ] || checks=(format tidy text site python shell deploy clang-tidy locks)
tools/deps.sh build test bench lint python
mkdir -p build/logs

# The files that git would commit: tracked files, and new ones that are not ignored. Deleted files are left out.
files() {
  git ls-files -z --cached --others --exclude-standard -- "$@" | while IFS= read -r -d '' file; do
    [ ! -f "$file" ] || printf '%s\0' "$file"
  done
}

check_format() { files '*.cc' '*.h' | xargs -0 --no-run-if-empty clang-format --dry-run --Werror; }

check_tidy() { /usr/bin/python3 tools/tidy.py; }

check_text() {
  local failed=0 fixer
  for fixer in trailing-whitespace-fixer end-of-file-fixer; do
    files . ':!tests/fuzz/corpus' ':!*.png' | xargs -0 ".venv/bin/$fixer" || failed=1
  done
  files '*.md' | xargs -0 .venv/bin/refcheck --no-color --quiet >build/logs/lint-links.log 2>&1 || {
    cat build/logs/lint-links.log
    failed=1
  }
  .venv/bin/python bench/figures.py --check || failed=1
  check_changes || failed=1
  check_tracked || failed=1
  return $failed
}

# What git ignores, and links, which lead out of the tree on another machine.
check_tracked() {
  local found
  found=$(git ls-files --cached --ignored --exclude-standard; git ls-files --stage | sed -n 's/^120000 .*\t/link: /p')
  [ -z "$found" ] || { echo "tracked, but ignored or a link:"; echo "$found"; return 1; }
}

# towncrier rejects a name with an unknown KIND, but does not see a fragment in the folder of an unknown PART.
check_changes() {
  local draft
  draft=$(.venv/bin/towncrier build --draft --version next 2>&1) || { echo "$draft"; return 1; }
  [ "$(grep -c '^- ' <<<"$draft")" -eq "$(files 'changes/*/*' | tr -cd '\0' | wc -c)" ] ||
    { echo "changes: the draft below lacks a fragment; towncrier.toml lists the PARTs"; echo "$draft"; return 1; }
}

check_site() {
  tools/deps.sh site
  NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --strict --quiet
}

check_python() {
  .venv/bin/ruff check --quiet && .venv/bin/ruff format --quiet --check && .venv/bin/mypy --no-error-summary
}

check_shell() { files '*.sh' .ci/run | xargs -0 shellcheck; }

check_deploy() {
  .venv/bin/yamllint --strict -d '{extends: default, rules: {line-length: {max: 120}}}' deploy &&
    .venv/bin/python tools/deploy_check.py && .venv/bin/python tools/deploy_check_test.py
}

check_clang-tidy() {
  cmake --preset lint >build/logs/lint-configure.log 2>&1 || { tail -n 20 build/logs/lint-configure.log; return 1; }
  /usr/bin/python3 tools/clang_tidy.py build/lint
}

# In the other rooms, this analysis is part of clang's sanitizer builds; the plug-in is built only by gcc.
check_locks() {
  tools/deps.sh tensorflow-2.15.1  # the version of the preset
  cmake --preset tf-lint >build/logs/lint-locks.log 2>&1 || { tail -n 20 build/logs/lint-locks.log; return 1; }
  /usr/bin/python3 tools/thread_safety.py build/tf-lint
}

if [ "${checks[*]}" = --fix ]; then
  files '*.cc' '*.h' | xargs -0 clang-format -i
  .venv/bin/ruff format --quiet
  exit
fi

failed=()
for check in "${checks[@]}"; do
  start=$SECONDS
  if "check_$check"; then
    echo "lint $check: clean, $((SECONDS - start)) s"
  else
    failed+=("$check")
    echo "lint $check: findings above, $((SECONDS - start)) s"
  fi
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "lint failed: ${failed[*]}" >&2
  exit 1
fi
