/**
 * Line diffs as rows to show side by side.
 *
 * In a text of definitions (`%12 = add %10, %11`) one new line renumbers all that follow. Such lines are the same when
 * they define the same thing: first those whose whole expression is equal are matched, then, in the stretches between,
 * lines equal but for the numbers; of these one is unchanged if its operands are, name by name, the matched ones.
 */
import { diffArrays } from "diff";
import type { Diff, DiffRow } from "./messages";

/** Past this many edited lines a diff says nothing: the middle is shown as replaced. */
const MOST_EDITS = 4000;
const NAME = /%[\w.]+/g;
const DEFINITION = /^\s*(%[\w.]+)(?:, %[\w.]+)* = /;

export function lines(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

type Pair = [before: number | null, after: number | null];

/** Lines matched by equal keys, in order; what has no partner stands alone. */
function matched(old: string[], now: string[], from: number, to: number): Pair[] {
  const pairs: Pair[] = [];
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) pairs.push([from + head, to + head++]);
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  const middle = [old.slice(head, old.length - tail), now.slice(head, now.length - tail)] as const;
  let [left, right] = [from + head, to + head];
  const parts = diffArrays(...middle, { maxEditLength: MOST_EDITS });
  if (parts === undefined) {
    middle[0].forEach(() => pairs.push([left++, null]));
    middle[1].forEach(() => pairs.push([null, right++]));
  }
  for (const { value, added, removed } of parts ?? []) {
    value.forEach(() => pairs.push([added ? null : left++, removed ? null : right++]));
  }
  for (let line = 0; line < tail; line++) pairs.push([left++, right++]);
  return pairs;
}

/** Each line as the number of the whole expression that it defines: equal for equal things, whatever their names. */
function expressions(old: string[], now: string[]): [string[], string[]] {
  const known = new Map<string, number>();
  const numbered = (texts: string[]) => {
    const numbers = new Map<string, number>();
    return texts.map((text) => {
      const name = DEFINITION.exec(text)?.[1];
      const key = text.replace(NAME, (used) => (used === name ? "%" : `%${numbers.get(used) ?? used}`));
      if (name === undefined) return key;
      const number = known.get(key) ?? known.size;
      known.set(key, number);
      numbers.set(name, number);
      return `= ${number}`;
    });
  };
  return [numbered(old), numbered(now)];
}

/** Runs of lines without a partner on either side, matched again by a coarser key. */
function refined(pairs: Pair[], old: string[], now: string[]): Pair[] {
  const result: Pair[] = [];
  for (let place = 0; place < pairs.length; ) {
    const [left, right] = pairs[place]!;
    if (left !== null && right !== null) {
      result.push(pairs[place++]!);
      continue;
    }
    let end = place;
    while (end < pairs.length && (pairs[end]![0] === null || pairs[end]![1] === null)) end++;
    const gone = pairs.slice(place, end).flatMap(([before]) => (before === null ? [] : [before]));
    const came = pairs.slice(place, end).flatMap(([, after]) => (after === null ? [] : [after]));
    const key = (text: string) => text.replace(NAME, "%");
    result.push(...matched(gone.map((line) => key(old[line]!)), came.map((line) => key(now[line]!)), gone[0] ?? 0, came[0] ?? 0));
    place = end;
  }
  return result;
}

export function diffRows(before: string, after: string): Diff {
  const [old, now] = [lines(before), lines(after)];
  const numbered = old.some((line) => DEFINITION.test(line)) && now.some((line) => DEFINITION.test(line));
  const exact = numbered ? matched(...expressions(old, now), 0, 0) : matched(old, now, 0, 0);
  const pairs = numbered ? refined(exact, old, now) : exact;
  const names: Record<string, string> = {};
  const rename = (left: number, right: number) => {
    const [defined, defines] = [DEFINITION.exec(old[left]!)?.[1], DEFINITION.exec(now[right]!)?.[1]];
    if (defined !== undefined && defines !== undefined) names[defined] = defines;
  };
  const rows: DiffRow[] = [];
  let [added, removed] = [0, 0];
  let gone: number[] = [];
  let came: number[] = [];
  const settle = () => {
    // What went and what came in its place stand beside each other. A definition comes after those it needs, so that the
    // last of the new ones is what the old one became: its users are unchanged.
    const height = Math.max(gone.length, came.length);
    const [skipGone, skipCame] = numbered ? [height - gone.length, height - came.length] : [0, 0];
    for (let line = 0; line < height; line++) {
      const [left, right] = [gone[line - skipGone] ?? null, came[line - skipCame] ?? null];
      if (left !== null && right !== null) rename(left, right);
      rows.push({ before: left, after: right, kind: left === null ? "added" : right === null ? "removed" : "changed" });
    }
    removed += gone.length;
    added += came.length;
    gone = [];
    came = [];
  };
  for (const [left, right] of pairs) {
    if (left !== null && right !== null) {
      settle();
      rename(left, right);
      if (old[left]!.replace(NAME, (name) => names[name] ?? name) === now[right]!) {
        rows.push({ before: left, after: right, kind: "same" });
        continue;
      }
    }
    if (left !== null) gone.push(left);
    if (right !== null) came.push(right);
  }
  settle();
  return { rows, added, removed, names };
}
