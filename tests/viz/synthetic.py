"""Recordings made up for the page's tests: a small one with every kind of document, and a large one.

Documents are made when they are asked for, as the recorder makes them: a million steps cost nothing until one is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Document = dict[str, Any]
Documents = Callable[[str], Document | None]

STAGES = [
    "planned", "early movement ops", "load collapse", "split ranges", "initial symbolic", "simplify ranges", "split store",
    "apply opts", "post-opt symbolic", "expander", "add local buffers", "remove reduce", "add GPU dims", "add loads",
    "devectorize", "lower index dtype", "post-index symbolic", "pre-matcher", "decompositions", "final rewrite",
    "add control flow", "linearize", "clean up if",
]  # fmt: skip
PASSES = ["input", "inline", "expand", "canonicalize", "cse", "dce"]
LEVELS = ["schedule", "llir", "llvm", "asm"]
SCHEDULE = "upcast(j, 16); upcast(i, 6); thread(i.outer, 4)"
PAGE = 500

HOSTILE = '</script><img src=x onerror="window.hacked=1"><b>&amp;\'\u202e'
"""A kernel's name as an attacker would write it: it may appear as text only."""

_PATH = re.compile(r"p0/k/(\d+)/(stage|level|why)(?:/(\w+)(?:/(steps?)/(\d+))?)?\.json")


def text(of: int, size: int) -> str:
    """A kernel's text; each `of` inserts one more line and so renumbers what follows."""
    rows = ["uop 1", "%0 = define_global slot=0 : *f32[393216]", "%1 = range 768 axis=i:g : index"]
    last = 1
    for line in range(2, size):
        rows.append(f"%{len(rows) - 1} = add %{last}, {line} : index")
        last = len(rows) - 2
        if line == 10:
            rows += [f"%{len(rows) - 1 + extra} = mul %1, {extra + 7} : index" for extra in range(of)]
    return "\n".join(rows) + "\n"


def _graph(size: int, shift: int) -> Document:
    nodes = [
        {
            "id": each + shift,
            "op": ("add", "mul", "index", "range")[each % 4],
            "label": f"{each}",
            "type": "index",
            "loc": f"%{each}",
            "region": -1,
        }
        for each in range(size)
    ]
    return {
        "nodes": nodes,
        "edges": [[each // 2 + shift, each + shift, 0] for each in range(1, size)],
        "left_out": 0,
    }


class Synthetic:
    """A recording of `kernels` kernels with `steps` rewrites in each, all in three stages."""

    def __init__(
        self,
        kernels: int,
        steps: int,
        size: int,
        *,
        live: bool,
        title: str = "synthetic",
        faster: float = 1.0,
    ) -> None:
        self.kernels, self.steps, self.size, self.live, self.title, self.faster = (
            kernels,
            steps,
            size,
            live,
            title,
            faster,
        )
        self.asked: list[str] = []

    def __call__(self, path: str) -> Document | None:
        self.asked.append(path)
        if path.startswith("b/"):
            return Synthetic(self.kernels, self.steps, self.size, live=False, faster=2.0)(path[2:])
        whole = {
            "index.json": self.index, "search.json": self.search, "p0/memory.json": self.memory, "p0/fusion.json": self.fusion,
            "p0/patterns.json": self.patterns, "r0/timeline.json": self.timeline,
        }  # fmt: skip
        if path in whole:
            return whole[path]()
        if found := re.fullmatch(r"p0/rule/(u\d+)\.json", path):
            return {"rule": found[1], "looked": 5, "failed": self.failures()}
        if re.fullmatch(r"p0/k/\d+/stage/\d+/failed\.json", path):
            rules = [{"rule": f"u{n}", "looked": 5, "failed": self.failures()} for n in range(20)]
            return {"rules": rules, "unknown": 0}
        if found := re.fullmatch(r"p0/k/\d+/stage/\d+/node/(\d+)\.json", path):
            said = [
                {"rule": "u1", "applied": True, "reason": "it applied"},
                {"rule": "u2", "applied": False, "reason": "c in x * c must be CONST, it is RANGE"},
            ]
            return {"node": int(found[1]), "text": "L0 * 4", "rules": said}
        if re.fullmatch(r"p0/beam/\d+\.json", path):
            return self.beam()
        if found := re.fullmatch(r"p0/pass/(\d+)(?:/(steps?)/(\d+))?\.json", path):
            return self.level(
                int(found[1]),
                PASSES[int(found[1])],
                2 if found[1] == "3" else 0,
                found[2],
                int(found[3] or 0),
            )
        if (found := _PATH.fullmatch(path)) is None or int(found[1]) >= self.kernels:
            return None
        kind, what, which, number = found[2], found[3], found[4], int(found[5] or 0)
        if kind == "why":
            return self.why()
        if kind == "level":
            return {"text": f"; {what} of kernel {found[1]}\n" + text(int(self.faster), 40), "language": what}
        return self.level(int(what), STAGES[int(what)], self.in_stage(int(what)), which, number)

    def in_stage(self, stage: int) -> int:
        shares = {1: self.steps // 10, 9: self.steps // 2}
        return shares.get(stage, self.steps - sum(shares.values()) if stage == 15 else 0)

    def kernel(self, number: int) -> Document:
        us = 10.0 + (number * 37) % 400
        name = (
            HOSTILE
            if number == 2
            else f"{('reduce', 'rows', 'map')[number % 3]}_{64 * (1 + number % 5)}_{number:04x}"
        )
        return {
            "id": f"p0/k/{number}", "name": name, "origin": f"model.py:{number % 90} in block  dot_general, add", "repeats": 1 + number % 2,
            "like": f"p0/k/{number % 12}" if number >= 12 else None, "flops": 10**6 * (1 + number % 70), "bytes": 10**5 * (1 + number % 11), "dtype": "f32",
            "estimate_us": us * 0.9, "measured_us": us / self.faster, "compile_ms": 20.0 + number % 9, "schedule": SCHEDULE,
            "stages": [[n, 0.5 + n % 4, self.in_stage(n), int(self.in_stage(n) > 0)] for n in range(len(STAGES))],
            "levels": LEVELS, "parts": [], "error": "",
        }  # fmt: skip

    def index(self) -> Document:
        kernels = [self.kernel(number) for number in range(self.kernels)]
        edges = [["x", "p0/k/0", "x", 4096]]
        edges += [[f"p0/k/{k - 1}", f"p0/k/{k}", f"b{k}", 65536] for k in range(1, self.kernels)]
        edges += [[f"p0/k/{k - 7}", f"p0/k/{k}", f"r{k}", 65536] for k in range(7, self.kernels, 7)]
        passes = [
            {
                "id": f"p0/pass/{n}",
                "name": name,
                "function": "model",
                "ms": 3.0,
                "changed": n in {0, 3},
                "steps": 2 if n == 3 else 0,
                "error": "",
            }
            for n, name in enumerate(PASSES)
        ]
        program = {
            "id": "p0", "name": "model", "user": {"file": "model.py", "line": 3}, "target": "x86-64-v4", "compile_ms": 410.0,
            "phases": [{"name": "passes", "ms": 30.0}, {"name": "stages", "ms": 210.0}, {"name": "machine code", "ms": 170.0}],
            "passes": passes, "kernels": kernels, "edges": edges,
            "has": {"memory": True, "fusion": True, "timeline": True, "beam": True, "patterns": True}, "error": "",
        }  # fmt: skip
        roofline = {
            "gflops": {"f32": 332.3, "f64": 166.1},
            "gbs": {"l1": 664.6, "l2": 249.2, "l3": 51.9, "memory": 23.4},
            "ghz": 2.6,
            "source": "measured on this machine",
        }
        return {
            "version": 2, "live": self.live, "title": self.title, "command": "planish viz model.py", "created": "2026-01-01T00:00:00+00:00",
            "planish": "0.1", "machine": {"name": "AMD EPYC", "target": "x86-64-v4", "threads": 2, "rooflines": {"x86-64-v4": roofline}},
            "programs": [program], "runs": [{"id": "r0", "program": "p0", "total_us": 250000.0, "calls": 1}],
            "stages": {str(n): name for n, name in enumerate(STAGES)}, "rules": self.rules(), "steps_total": self.kernels * self.steps + 2,
            "error": "", "compare": None,
        }  # fmt: skip

    @staticmethod
    def rules() -> Document:
        return {
            f"u{n}": {
                "name": f"divide {n}",
                "equation": f"x * {n} // {n} -> x",
                "file": "planish/uop/symbolic/division.py",
                "line": n,
                "engine": "uop",
            }
            for n in range(60)
        }

    def level(self, n: int, title: str, steps: int, what: str | None, which: int) -> Document:
        if what == "steps":
            shown = range(which * PAGE, min(steps, (which + 1) * PAGE))
            rows = [
                [
                    f"u{s % 60}",
                    n * 1000 + s % self.size,
                    s * 3.1,
                    f"(L{s} * 4 + {s}) // 4",
                    f"L{s} + {s // 4}",
                    "model.py:7",
                    [n * 1000 + s % self.size],
                    2.5,
                    s % 2,
                    [n * 1000 + s % self.size],
                ]
                for s in shown
            ]
            return {"first": which * PAGE, "steps": rows, "folded": []}
        if what == "step":
            return {
                "number": which, "total": steps, "rule": f"u{which % 60}", "before": text(which % 5, self.size), "after": text(which % 5 + 1, self.size),
                "at": [n * 1000 + which % self.size], "made": [n * 1000 + which % self.size], "whole": True, "us": 2.5,
                "graph": _graph(self.size, n * 1000),
            }  # fmt: skip
        statistics = [
            {"rule": f"u{r}", "tried": 90, "applied": 20 - r, "ms": 0.1, "failed": {"not a constant": 70}}
            for r in range(20)
        ]
        return {
            "title": title, "note": f"After {title}: what holds.", "language": "uop", "before": text(0, self.size) if steps else None,
            "after": text(1 if steps else 0, self.size), "graph": _graph(self.size, n * 1000), "steps": steps, "steps_pages": -(-steps // PAGE),
            "statistics": statistics if steps else [],
        }  # fmt: skip

    def search(self) -> Document:
        entries = [
            ["step", "p0/k/0/stage/9?step=3", "divide 3: (L3 * 4 + 3) // 4"],
            ["level", "p0/k/0/level/llvm", "fmul contract <16 x float>"],
        ]
        return {"results": entries, "left_out": 0}

    @staticmethod
    def memory() -> Document:
        buffers = [
            {
                "name": f"b{n}",
                "bytes": 4096 * (1 + n % 5),
                "offset": 4096 * (n * 3 % 16),
                "first": n,
                "last": n + 2,
                "role": "arena",
            }
            for n in range(30)
        ]
        buffers.append(
            {"name": "x", "bytes": 65536, "offset": None, "first": 0, "last": 31, "role": "parameter"}
        )
        return {
            "buffers": buffers,
            "steps": 32,
            "labels": [f"kernel {n}" for n in range(32)],
            "peak": 81920,
            "lower_bound": 61440,
            "unshared": 360448,
        }

    def fusion(self) -> Document:
        reasons = [
            "a product of matrices that is too large to be computed row by row",
            "both are fused: one reads what the other wrote in place",
        ]
        pairs = [
            {
                "producer": f"p0/k/{k}",
                "consumer": f"p0/k/{k + 1}",
                "fused": k % 2 == 1,
                "reason": reasons[k % 2],
                "tensor": f"b{k}",
                "sibling": k % 3 == 2,
            }
            for k in range(self.kernels - 1)
        ]
        return {"pairs": pairs, "left_out": 0}

    @staticmethod
    def failures() -> list[Document]:
        example = "%10 = reduce_sum %6 {axes=[1]} : tensor<f32, 512>"
        return [{"reason": "the axes are gone already", "count": 5, "example": example}]

    def patterns(self) -> Document:
        return {
            "patterns": [
                {"rule": f"u{n}", "tried": 100 + n, "applied": 60 - n, "ms": 0.3, "failed": self.failures()}
                for n in range(60)
            ]
        }

    def timeline(self) -> Document:
        at, events = 0.0, []
        for number in range(self.kernels):
            entry = self.kernel(number)
            us, work, traffic = entry["measured_us"], entry["flops"], entry["bytes"]
            events.append({"name": entry["name"], "kernel": entry["id"], "start_us": at, "us": us, "thread": 0, "gflops": work / us / 1e3, "gbs": traffic / us / 1e3, "bytes": traffic, "flops": work})  # fmt: skip
            at += us + 1
        return {"events": events, "threads": 2, "note": ""}

    @staticmethod
    def beam() -> Document:
        nodes: list[Document] = [
            {
                "id": 0,
                "parent": None,
                "action": "start",
                "schedule": "",
                "estimate_us": 90.0,
                "measured_us": None,
                "kept": True,
                "outcome": "",
            }
        ]
        for n in range(1, 40):
            parent = (n - 1) // 3
            schedule = "; ".join(filter(None, [nodes[parent]["schedule"], f"split(i, {n})"]))
            nodes.append({"id": n, "parent": parent, "action": f"split(i, {n})", "schedule": schedule, "estimate_us": 90.0 - n, "measured_us": 80.0 - n if n % 3 == 0 else None, "kept": n % 3 == 0, "outcome": ""})  # fmt: skip
        return {
            "nodes": nodes,
            "considered": 120,
            "rounds": 4,
            "seconds": 1.5,
            "ended": "no action helps",
            "refusals": {"lanes do not divide": 12},
        }

    @staticmethod
    def why() -> Document:
        inner = {"axis": "j.inner", "extent": 16, "kind": "vector", "depth": 2, "children": []}
        middle = {"axis": "j.outer", "extent": 48, "kind": "serial", "depth": 1, "children": [inner]}
        return {
            "origin": "model.py:7", "because": ["its result is read twice"], "bound_by": "bound by memory", "note": "",
            "schedule": [
                {"action": "upcast(j, 16)", "taken": True, "legal": True, "reason": "one register of lanes", "estimate_us": 20.0, "effect": "reads become wide"},
                {"action": "unroll(k, 4)", "taken": False, "legal": True, "reason": "no faster by the model", "estimate_us": 21.0, "effect": ""},
            ],
            "loads": [{"buffer": "arg1", "index": "i * 768 + j * 2", "store": False, "lanes": 1, "wide": False, "reason": "neighbouring lanes lie 2 apart"}],
            "nest": {"loops": [{"axis": "i", "extent": 768, "kind": "thread", "depth": 0, "children": [middle]}], "legal_actions": ["split(i, 4)", "split(i, 8)", "upcast(j, 8)"]},
            "candidates": [{"name": "wide rows", "schedule": "upcast(j, 8)", "estimate_us": 25.0, "measured_us": 27.0, "outcome": "slower"}],
        }  # fmt: skip

    def edited(self, schedule: str) -> Document:
        """What the server answers to a schedule: a factor of 7 is refused, all else is legal."""
        actions = [action.strip() for action in schedule.split(";") if action.strip()]
        wrong = next((place for place, action in enumerate(actions) if "7" in action), None)
        refused = (
            None if wrong is None else {"step": wrong, "reason": f"{actions[wrong]}: 7 does not divide 768"}
        )
        levels = (
            {}
            if refused
            else {level: f"; {level} edited\n" + text(3, 40) for level in ("llir", "llvm", "asm")}
        )
        return {
            "legal": refused is None,
            "refused": refused,
            "schedule": schedule,
            "levels": levels,
            "estimate_us": None if refused else 12.0,
            "measured_us": None,
            "note": "",
        }


def small(*, live: bool = True) -> Synthetic:
    return Synthetic(kernels=14, steps=40, size=60, live=live)


def large() -> Synthetic:
    """A thousand kernels and a million steps."""
    return Synthetic(kernels=1000, steps=1000, size=300, live=True, title="large")


class Compared(Synthetic):
    """Two recordings, of which the second is twice as fast."""

    def index(self) -> Document:
        first = super().index()
        return {
            **first,
            "compare": Synthetic(
                self.kernels, self.steps, self.size, live=False, title="after", faster=2.0
            ).index(),
        }
