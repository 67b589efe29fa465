/** Properties of what the worker computes, over random inputs from fixed seeds: `npm test`. */
import assert from "node:assert/strict";
import { href, parseRoute } from "../src/route";
import { diffRows, lines } from "../src/worker/diff";
import { layOut } from "../src/worker/layout";
import { find } from "../src/worker/search";

/** A small generator of random numbers: the same on every machine. */
function random(seed: number): (below: number) => number {
  let state = seed * 2654435761 + 1;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 374761393) | 0;
    return (state >>> 4) % below;
  };
}

interface Definition {
  op: string;
  operands: number[];
}

/** A program as text; definitions are numbered in order, as the recorder numbers them. */
function text(program: Definition[]): string {
  return program.map(({ op, operands }, at) => `%${at} = ${op} ${operands.map((each) => `%${each}`).join(", ")} : f32`).join("\n");
}

/** Each expression is defined once, as in a graph whose nodes are interned. */
function program(below: (n: number) => number, size: number): Definition[] {
  const made = new Map<string, Definition>();
  while (made.size < size) {
    const op = ["add", "mul", "load", "exp"][below(4)]!;
    const operands = made.size === 0 ? [] : Array.from({ length: 1 + below(2) }, () => below(made.size));
    made.set(`${op} ${operands.join(" ")}`, { op, operands });
  }
  return [...made.values()];
}

/** The program with one more definition at a place; what follows is renumbered. */
function inserted(old: Definition[], at: number, op: string): Definition[] {
  const moved = (each: number) => (each >= at ? each + 1 : each);
  const rest = old.map(({ op: name, operands }) => ({ op: name, operands: operands.map(moved) }));
  return [...rest.slice(0, at), { op, operands: [] }, ...rest.slice(at)];
}

function diffs(): void {
  for (let seed = 1; seed <= 200; seed++) {
    const below = random(seed);
    const before = program(below, 1 + below(40));
    let after = before;
    for (let edits = below(4); edits > 0; edits--) after = inserted(after, below(after.length + 1), "const");
    if (below(2) === 0) after = after.map((each, at) => (at === below(after.length) ? { ...each, op: "neg" } : each));
    const [old, now] = [text(before), text(after)];
    const { rows, added, removed, names } = diffRows(old, now);
    const side = (which: "before" | "after") => rows.flatMap((row) => (row[which] === null ? [] : [row[which]]));
    assert.deepEqual(side("before"), lines(old).map((_, at) => at), `seed ${seed}: every old line once, in order`);
    assert.deepEqual(side("after"), lines(now).map((_, at) => at), `seed ${seed}: every new line once, in order`);
    assert.equal(added - removed, after.length - before.length, `seed ${seed}: the counts`);
    for (const row of rows) {
      if (row.kind !== "same") continue;
      const renamed = lines(old)[row.before!]!.replace(/%\d+/g, (name) => names[name] ?? name);
      assert.equal(renamed, lines(now)[row.after!], `seed ${seed}: unchanged lines are equal but for names`);
    }
    assert.equal(diffRows(now, now).added + diffRows(now, now).removed, 0);
    const one = diffRows(old, text(inserted(before, below(before.length + 1), "const")));
    assert.deepEqual([one.added, one.removed], [1, 0], `seed ${seed}: one new line is one change, whatever it renumbers`);
    const at = below(before.length);
    const other = diffRows(old, text(inserted(before.map((each, place) => (place === at ? { ...each, op: "neg" } : each)), 0, "const")));
    assert.deepEqual([other.added, other.removed], [2, 1], `seed ${seed}: a new op is one change, whoever uses it`);
  }
  assert.deepEqual(diffRows("", "a\nb\n").rows.map(({ kind }) => kind), ["added", "added"]);
  assert.deepEqual(diffRows("a\nb", "a\nc").rows.map(({ kind }) => kind), ["same", "changed"]);
}

function layouts(): void {
  for (const [size, cyclic] of [[1, false], [40, false], [200, true], [1200, false], [1200, true]] as const) {
    const below = random(size);
    const nodes = Array.from({ length: size }, (_, at) => ({ id: `n${at}`, width: 60 + below(120), height: 24 }));
    const edges: [string, string][] = Array.from({ length: size - 1 }, (_, at) => [`n${below(at + 1)}`, `n${at + 1}`]);
    if (cyclic) edges.push([`n${size - 1}`, "n0"], [`n${size >> 1}`, `n${size >> 2}`]);
    for (const direction of ["TB", "LR"] as const) {
      const { x, y, bends, width, height } = layOut({ kind: "layout", nodes, edges, direction });
      assert.equal(bends.length, edges.length);
      assert.ok([...x, ...y, ...bends.flatMap((bend) => [...bend])].every(Number.isFinite));
      assert.ok(x.every((value) => value >= 0 && value <= width) && y.every((value) => value >= 0 && value <= height));
      const seen = new Map<string, number>();
      nodes.forEach((_, at) => seen.set(`${x[at]} ${y[at]}`, at));
      assert.equal(seen.size, size, "no two nodes lie on each other");
      const along = direction === "TB" ? y : x;
      if (!cyclic) edges.forEach(([from, to]) => assert.ok(along[Number(from.slice(1))]! < along[Number(to.slice(1))]!, "edges lead on"));
    }
  }
}

function searches(): void {
  const entries = Array.from({ length: 500 }, (_, at) => ["kernel", `p0/k/${at}`, `Reduce_${at} model.py:${at % 50}`] as [string, string, string]);
  const { results, total } = find(entries, "reduce_4 MODEL", 20);
  assert.equal(total, entries.filter(([, , name]) => name.includes("Reduce_4")).length);
  assert.equal(results.length, 20);
  assert.equal(results[0]![1], "p0/k/4");
  assert.deepEqual(find(entries, "   ", 5), { results: [], total: 0 });
}

function routes(): void {
  for (const value of ["a b", "x?y&z=1", "100%", "</script>", "ü/ö", "split(i, 8); upcast(j, 16)"]) {
    assert.deepEqual(parseRoute(href("p0/k/1", { text: value })), { path: ["p0", "k", "1"], query: { text: value } });
  }
  assert.equal(href("p0", { step: 0, q: "", rule: null }), "#/p0?step=0");
  assert.deepEqual(parseRoute("#/p0/%E0%A4%A"), { path: ["p0", "%E0%A4%A"], query: {} });
}

for (const property of [diffs, layouts, searches, routes]) {
  property();
  console.log(`${property.name} hold`);
}
