"""Whatever stands on a command line is understood or refused as a mistake of its writer; it is never a bug."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planish.cli import COMMANDS, module_of
from planish.cli.completion import described
from planish.cli.console import Console, UsageError
from planish.cli.script import divide
from planish.cli.sources import read_arguments
from planish.errors import SettingsError

KNOWN = {
    name: [word for option in options for word in (*option.words, *option.values[:3])]
    for name, options in described().items()
}
JUNK = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)


@pytest.mark.parametrize("command", COMMANDS)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_words_are_parsed_or_refused(command: str, data: st.DataObject) -> None:
    words = data.draw(
        st.lists(
            st.sampled_from(KNOWN[command]) | JUNK | st.sampled_from(["1", "a=b", "--", "-"]), max_size=6
        )
    )
    words = [word for word in words if word not in ("-h", "--help")]
    console = Console()
    parser = module_of(command).parser()
    own, _ = divide(words, parser)
    with contextlib.suppress(UsageError, SettingsError), console.open:
        parser.parse(own, console)


ARGUMENT = st.sampled_from(
    ["f32[2]", "f32[", "]", "[", "(", ")", ",", "=", "n=1..4", "n=4..1", "axis=0", "i32[]", "f32[n=1..2,3]", "{[]: 1}",
     "f99[1]", "f32[-1]", "f32[99999999999999999999999]", "f32[0]", "1e999", "None", "'x'", " ", "f32x4[2]", "*f32[2]", "void[1]"]
)  # fmt: skip


@given(st.lists(ARGUMENT | JUNK, max_size=5))
@settings(max_examples=120, deadline=None)
def test_specs_are_read_or_refused(parts: list[str]) -> None:
    for text in (",".join(parts), "".join(parts)):
        with contextlib.suppress(UsageError):
            read_arguments(text)
