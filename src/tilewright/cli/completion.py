"""`tilewright completion SHELL`: a script that completes commands and options, made from the parser."""

from __future__ import annotations

import argparse
from typing import Any

SHELLS = ("bash", "zsh", "fish")

_BASH = """_tilewright() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" words
    case "${{COMP_WORDS[1]}}" in
{cases}
        *) words="" ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then words="{commands}"; fi
    COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
}}
complete -o filenames -F _tilewright tilewright
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def words(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Each command with its options and the words that may follow it; the empty name has the commands.

    >>> parser = argparse.ArgumentParser()
    >>> one = parser.add_subparsers().add_parser("show")
    >>> _ = one.add_argument("--deep", action="store_true")
    >>> words(parser)
    {'': ['show'], 'show': ['--deep']}
    """
    found: dict[str, list[str]] = {"": []}
    for name, command in _commands(parser).items():
        found[""].append(name)
        flags = [max(a.option_strings, key=len) for a in command._actions if a.option_strings and a.dest != "help"]
        choices = [str(c) for a in command._actions if a.choices and not a.option_strings for c in a.choices]
        found[name] = sorted({*flags, *choices})
    return found


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {name: command for action in parser._actions if isinstance(action, argparse._SubParsersAction)
            for name, command in action.choices.items()}  # fmt: skip


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The text of the script for a shell."""
    known = words(parser)
    commands = known.pop("")
    if shell == "fish":
        lines = [f"complete -c tilewright -n __fish_use_subcommand -f -a '{' '.join(commands)}'"]
        for name, each in known.items():
            seen = f"complete -c tilewright -n '__fish_seen_subcommand_from {name}'"
            lines += [f"{seen} -l {w[2:]}" if w.startswith("--") else f"{seen} -a {w}" for w in each]
        return "\n".join(lines) + "\n"
    cases = "\n".join(f'        {name}) words="{" ".join(each)}" ;;' for name, each in known.items())
    return (_ZSH if shell == "zsh" else "") + _BASH.format(cases=cases, commands=" ".join(commands))


def add_to(commands: Any) -> None:
    """Add the command to those of `tilewright`."""
    parser = commands.add_parser("completion", help="a script of completions: eval \"$(tilewright completion bash)\"")
    parser.add_argument("shell", choices=SHELLS)
