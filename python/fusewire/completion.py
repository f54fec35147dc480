# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire completion: a script by which a shell completes our commands, made of the parsers' own options."""

import argparse
import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]
EPILOG = """
bash:  echo 'source <(fusewire completion bash)' >> ~/.bashrc
zsh:   echo 'source <(fusewire completion zsh)' >> ~/.zshrc     after compinit
fish:  fusewire completion fish > ~/.config/fish/completions/fusewire.fish
"""
# After the first word that is not an option, `fusewire run` has the program's words: only files are completed there.
BASH = """\
_fusewire() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} at
  local -A options=( %(options)s )
  local -A values=( %(values)s )
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W '%(verbs)s' -- "$word")
    return
  fi
  if [[ -v values["$verb $before"] ]]; then
    if [[ -n ${values["$verb $before"]} ]]; then
      mapfile -t COMPREPLY < <(compgen -W "${values["$verb $before"]}" -- "$word")
    else
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
    return
  fi
  for ((at = 2; at < COMP_CWORD; at++)); do
    if [[ ${COMP_WORDS[at]} != -* && ! -v values["$verb ${COMP_WORDS[at - 1]}"] ]]; then
      verb=
    fi
  done
  if [[ $word == -* && -n $verb ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${options[$verb]}" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _fusewire fusewire"""
ZSH = """\
_fusewire() {
  local -a verbs=( %(verbs)s )
  if ((CURRENT == 2)); then
    _describe command verbs
    return
  fi
  shift words
  ((CURRENT--))
  case $words[1] in
%(cases)s
  esac
}
compdef _fusewire fusewire"""


def add_to(verbs: "Verbs") -> None:
    completion = verbs.add_parser(
        "completion",
        help="print a script that completes commands and options in bash, zsh or fish",
        description="Prints a script by which a shell completes commands and options.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", choices=SCRIPTS)
    completion.set_defaults(call=lambda options: print("\n".join(SCRIPTS[options.shell](verbs))) or 0)


def options_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    return ((name, action) for action in parser._actions for name in action.option_strings)


def words_of(action: argparse.Action) -> str:
    return " ".join(action.choices or ())


def words_behind(parser: argparse.ArgumentParser) -> str:
    """Those that its first argument may be."""
    return " ".join(words_of(action) for action in parser._actions if not action.option_strings)


def about(action: argparse.Action) -> str:
    return (action.help or "").partition(";")[0]


def bash(verbs: "Verbs") -> Iterator[str]:
    options, values = [], []
    for verb, parser in verbs.choices.items():
        options.append(f"[{verb}]={shlex.quote(' '.join(name for name, _ in options_of(parser)))}")
        before = [(name, words_of(action)) for name, action in options_of(parser) if action.nargs != 0]
        if words := words_behind(parser):
            before.append((verb, words))
        values += [f"['{verb} {name}']={shlex.quote(words)}" for name, words in before]
    yield BASH % {"options": " ".join(options), "values": " ".join(values), "verbs": " ".join(verbs.choices)}


def zsh(verbs: "Verbs") -> Iterator[str]:
    cases = []
    for verb, parser in verbs.choices.items():
        cases.append(f"    {verb}) _arguments -A '-*'")
        for name, action in options_of(parser):
            value = f":value:{f'({words_of(action)})' if words_of(action) else '_files'}" if action.nargs != 0 else ""
            cases[-1] += " " + shlex.quote(f"{name}[{re.sub('[][:]', ' ', about(action))}]{value}")
        words = words_behind(parser)
        cases[-1] += f" '*::word:{f'({words})' if words else '_files'}' ;;"
    named = " ".join(shlex.quote(f"{action.dest}:{about(action)}") for action in verbs._choices_actions)
    yield ZSH % {"verbs": named, "cases": "\n".join(cases)}


def fish(verbs: "Verbs") -> Iterator[str]:
    for each in verbs._choices_actions:
        yield f"complete -c fusewire -n __fish_use_subcommand -f -a {each.dest} -d {shlex.quote(about(each))}"
    for verb, parser in verbs.choices.items():
        begin = f"complete -c fusewire -n '__fish_seen_subcommand_from {verb}'"
        for name, action in options_of(parser):
            value = (
                f" -x -a {shlex.quote(words_of(action))}" if words_of(action) else " -r" if action.nargs != 0 else ""
            )
            kind = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            yield f"{begin} {kind}{value} -d {shlex.quote(about(action))}"
        if words := words_behind(parser):
            yield f"{begin} -f -a {shlex.quote(words)}"


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
