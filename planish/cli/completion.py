"""`planish completion`: a script that lets a shell complete commands, options and their values.

planish completion bash > ~/.local/share/bash-completion/completions/planish
planish completion zsh > "${fpath[1]}/_planish"
planish completion fish > ~/.config/fish/completions/planish.fish
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from planish.cli import COMMANDS, module_of
from planish.cli.console import OK, CommandParser, Console, examples
from planish.config import describe


@dataclass(frozen=True, slots=True)
class Option:
    """An option, or a positional argument (which has no words), as shells see it."""

    words: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...] = ()
    """What may be given; without any, a file."""


def parser() -> CommandParser:
    parser = CommandParser(
        "planish completion", "Write the completion script of a shell to standard output.", examples(__doc__)
    )
    parser.add_argument("shell", choices=sorted(_SHELLS), help="the shell")
    return parser


def run(arguments: Sequence[str], console: Console) -> int:
    args = parser().parse(arguments, console)
    script = _SHELLS[args.shell](described())
    console.product({"shell": args.shell, "script": script}, script)
    return OK


def described() -> dict[str, tuple[Option, ...]]:
    """Every command with its options: the declarations that parse them, read once more."""
    return {name: _options(module_of(name).parser()) for name in COMMANDS}


def _options(parser: argparse.ArgumentParser) -> tuple[Option, ...]:
    return tuple(
        Option(
            tuple(action.option_strings),
            " ".join((action.help or "").replace("%%", "%").split()),
            action.nargs != 0,
            _values(action),
        )
        for action in parser._actions
    )


def _values(action: argparse.Action) -> tuple[str, ...]:
    """What is known of what an option takes."""
    from planish.cli.lower import levels
    from planish.compiler.device_kinds import KINDS
    from planish.ptir.passes import PASSES
    from planish.target import TARGETS

    if action.choices is not None:
        return tuple(map(str, action.choices))
    known: dict[str, Callable[[], Iterable[str]]] = {
        "--to": levels,
        "--target": lambda: ("host", *TARGETS),
        "--device": lambda: KINDS,
        "--set": lambda: (f"{name}=" for name, *_ in describe()),
        "--pipeline": lambda: sorted(PASSES),
    }
    return next((tuple(known[word]()) for word in action.option_strings if word in known), ())


# -- shells ----------------------------------------------------------------------------------------------------------


def _bash(commands: dict[str, tuple[Option, ...]]) -> str:
    cases = []
    for name, options in commands.items():
        valued = [
            f"      {'|'.join(o.words)}) {_bash_values(o)} ;;" for o in options if o.words and o.takes_value
        ]
        words = " ".join(word for option in options for word in option.words)
        free = next((o for o in options if not o.words), None)
        rest = "COMPREPLY=()" if free is None else _bash_values(free)
        cases.append(
            f"  {name})\n    case $last in\n"
            + "\n".join(valued)
            + f'\n      *) if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "{words}" -- "$word")); else {rest}; fi ;;\n'
            "    esac ;;"
        )
    names = " ".join(commands)
    return f"""\
# bash completion of planish
_planish() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} last=${{COMP_WORDS[COMP_CWORD-1]}}
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "{names} --help --version --verbose" -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{chr(10).join(cases)}
  esac
}}
complete -o bashdefault -o default -F _planish planish
"""


def _bash_values(option: Option) -> str:
    if not option.values:
        return 'COMPREPLY=($(compgen -f -- "$word"))'
    nospace = " && compopt -o nospace" if all(value.endswith("=") for value in option.values) else ""
    return f'COMPREPLY=($(compgen -W "{" ".join(option.values)}" -- "$word")){nospace}'


def _zsh(commands: dict[str, tuple[Option, ...]]) -> str:
    cases = []
    for name, options in commands.items():
        specs = []
        for option in options:
            values = f"({' '.join(option.values)})" if option.values else "_files"
            if not option.words:
                specs.append(shlex.quote(f"*:{_plain(option.help)}:{values.replace(':', chr(92) + ':')}"))
                continue
            for word in option.words:
                value = f":value:{values.replace(':', chr(92) + ':')}" if option.takes_value else ""
                specs.append(shlex.quote(f"*{word}[{_plain(option.help)}]{value}"))
        lines = " \\\n        ".join(specs)
        cases.append(f"    {name})\n      _arguments \\\n        {lines} ;;")
    told = "\n".join(f"    {shlex.quote(f'{name}:{_plain(COMMANDS[name])}')}" for name in commands)
    return f"""\
#compdef planish
# zsh completion of planish
_planish() {{
  local -a commands=(
{told}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
{chr(10).join(cases)}
  esac
}}
# found in fpath, this file is the function's first call; sourced, it makes the function known
if [[ $funcstack[1] == _planish ]]; then _planish "$@"; else compdef _planish planish; fi
"""


def _plain(text: str) -> str:
    """Help without what zsh's specs give a meaning to."""
    return text.translate(str.maketrans("[]:\\", "(),/"))


def _fish(commands: dict[str, tuple[Option, ...]]) -> str:
    lines = ["# fish completion of planish", "complete -c planish -f -n __fish_use_subcommand"]
    for name, options in commands.items():
        lines.append(
            f"complete -c planish -n __fish_use_subcommand -a {name} -d {_fish_text(COMMANDS[name])}"
        )
        when = f"-n '__fish_seen_subcommand_from {name}'"
        for option in options:
            if not option.words:
                if option.values:
                    lines.append(f"complete -c planish -f {when} -a {_fish_text(' '.join(option.values))}")
                continue
            words = " ".join(f"-l {w[2:]}" if w.startswith("--") else f"-s {w[1:]}" for w in option.words)
            value = (
                (f" -x -a {_fish_text(' '.join(option.values))}" if option.values else " -r")
                if option.takes_value
                else ""
            )
            lines.append(f"complete -c planish {when} {words}{value} -d {_fish_text(option.help)}")
    return "\n".join(lines) + "\n"


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SHELLS: Final = {"bash": _bash, "zsh": _zsh, "fish": _fish}
