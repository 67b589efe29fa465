"""docs/distributed.md runs, and the passes show what they do as text."""

from __future__ import annotations

import re
from pathlib import Path

from planish import ptir
from planish.cli import main

PAGE = Path(__file__).parent.parent.parent / "docs" / "distributed.md"
PROGRAM = """ptir 1
func @f(%x: tensor<f32, 8x4>, %w: tensor<f32, 4x6>) -> tensor<f32, 8x6> {
  %0 = sharding %x {mesh=[["data", 2]], spec=[["data"], []]} : tensor<f32, 8x4>
  %1 = dot_general %0, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0], accum_dtype=f32, out_dtype=f32}
  %2 = neg %1
  return %2
}
"""


def test_the_examples_of_the_page_run():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), scope)


def test_the_command_shows_specs_and_parts(tmp_path, capsys):
    path = tmp_path / "f.ptir"
    path.write_text(PROGRAM, encoding="utf-8")
    assert main(["opt", str(path), "-p", "shard"]) == 0
    shown = capsys.readouterr().out
    assert 'spec=[["data"], []], why="dot_general of %0"' in shown.replace("%2", "%0")
    assert main(["opt", str(path), "-p", "shard,partition"]) == 0
    parts = ptir.parse(capsys.readouterr().out).entry
    assert [str(p.type) for p in parts.params] == ["tensor<f32, 4x4>", "tensor<f32, 4x6>"]
    assert parts.layout is not None
    assert parts.layout.results == ((("data",), ()),)
    assert not any(inst.op is ptir.ops.sharding for inst in parts.walk())
