/** Text with line numbers, of any length, and its differences. */
import { diffArrays } from "diff";
import { useEffect, useMemo, useState } from "preact/hooks";
import { ask } from "../ask";
import { usePromise } from "../data";
import { counted } from "../format";
import { lines } from "../worker/diff";
import type { DiffRow } from "../worker/messages";
import { Highlighted } from "./highlight";
import { ScrollGroup, VirtualList } from "./virtual";
import { CopyButton, Waiting } from "./small";

const ROW = 19;

const widest = (texts: string[]): number => texts.reduce((most, line) => Math.max(most, line.length), 0) + 8;

export function Code({ text, language, label, marked }: { text: string; language?: string; label: string; marked?: Set<number> }) {
  const rows = useMemo(() => lines(text), [text]);
  const columns = useMemo(() => widest(rows), [rows]);
  return (
    <div class="code">
      <div class="code-bar">
        <span class="muted">{counted(rows.length, "line")}</span>
        <CopyButton text={text} />
      </div>
      <VirtualList
        className="mono"
        count={rows.length}
        rowHeight={ROW}
        label={label}
        columns={columns}
        scrolls
        current={marked === undefined ? null : Math.min(...marked)}
        row={(place) => (
          <div class={`line ${marked?.has(place) ? "marked" : ""}`}>
            <span class="gutter">{place + 1}</span>
            <Highlighted text={rows[place]!} language={language} />
          </div>
        )}
      />
    </div>
  );
}

const WORDS = /%?[\w.]+|\s+|[^\w\s]/g;

/** The words of a changed line, those that differ marked; a name that was only renumbered does not differ. */
export function Words({ before, after, side, names }: { before: string; after: string; side: "before" | "after"; names?: Record<string, string> }) {
  const own = useMemo(() => {
    const [old, now] = [before.match(WORDS) ?? [], after.match(WORDS) ?? []];
    const parts = old.length + now.length > 1500 ? undefined : diffArrays(old.map((word) => names?.[word] ?? word), now);
    if (parts === undefined) return [{ text: side === "before" ? before : after, marked: false }];
    let [left, right] = [0, 0];
    return parts.flatMap(({ value, added, removed }) => {
      const [from, to] = [left, right];
      if (!added) left += value.length;
      if (!removed) right += value.length;
      const words = side === "before" ? old.slice(from, left) : now.slice(to, right);
      return words.length === 0 ? [] : [{ text: words.join(""), marked: added || removed }];
    });
  }, [before, after, side, names]);
  return <>{own.map(({ text, marked }) => (marked ? <mark>{text}</mark> : text))}</>;
}

export type DiffMode = "side" | "inline";

interface DiffProps {
  before: string;
  after: string;
  mode: DiffMode;
  language?: string;
  label: string;
  /** Names of the two sides, where they are not before and after. */
  sides?: [string, string];
}

/** Unchanged stretches keep this many lines around a change. */
const CONTEXT = 4;

type Shown = DiffRow | { kind: "fold"; from: number; count: number };

function folded(rows: DiffRow[], open: Set<number>): Shown[] {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, place) => {
    if (row.kind === "same") return;
    near.fill(1, Math.max(0, place - CONTEXT), Math.min(rows.length, place + CONTEXT + 1));
  });
  const shown: Shown[] = [];
  for (let place = 0; place < rows.length; ) {
    let end = place;
    while (end < rows.length && near[end] === 0) end++;
    if (end - place > 3 && !open.has(place)) shown.push({ kind: "fold", from: place, count: end - place });
    else shown.push(...rows.slice(place, end));
    place = end;
    while (place < rows.length && near[place] === 1) shown.push(rows[place++]!);
  }
  return shown;
}

export function DiffView({ before, after, mode, language, label, sides = ["before", "after"] }: DiffProps) {
  // Both texts are the key: a diff is asked for once and belongs to exactly these.
  const [version, setVersion] = useState(0);
  useEffect(() => setVersion((old) => old + 1), [before, after]);
  const diff = usePromise(() => ask({ kind: "diff", before, after }), version === 0 ? null : `${version}`);
  const [old, now] = useMemo(() => [lines(before), lines(after)], [before, after]);
  const columns = useMemo(() => widest([...old, ...now]), [old, now]);
  const [open, setOpen] = useState<Set<number>>(new Set());
  const group = useMemo(() => new ScrollGroup(), []);
  useEffect(() => setOpen(new Set()), [before, after]);
  const shown = useMemo(() => (diff.value === null ? [] : folded(diff.value.rows, open)), [diff.value, open]);
  const inline = useMemo(() => (mode === "inline" ? flattened(shown) : []), [shown, mode]);
  if (diff.value === null) return <Waiting loaded={diff} />;
  if (diff.value.added + diff.value.removed === 0) {
    return (
      <div class="diff">
        <p class="notice">Nothing changed in the text.</p>
        <Code text={after} language={language} label={label} />
      </div>
    );
  }
  const { names } = diff.value;
  const unfold = (from: number) => setOpen(new Set([...open, from]));
  const fold = (row: Extract<Shown, { kind: "fold" }>) => (
    <button type="button" class="fold" onClick={() => unfold(row.from)}>
      ⋯ {counted(row.count, "unchanged line")}
    </button>
  );
  const cell = (row: DiffRow, side: "before" | "after") => {
    const line = row[side];
    if (line === null) return <div class="line gap" />;
    const text = (side === "before" ? old : now)[line] ?? "";
    const tone = row.kind === "same" ? "" : side === "before" ? "removed" : "added";
    return (
      <div class={`line ${tone}`}>
        <span class="gutter">{line + 1}</span>
        <span class="sign" aria-label={tone || undefined}>{tone === "" ? " " : tone === "added" ? "+" : "−"}</span>
        {row.kind === "changed" ? (
          <Words before={old[row.before!] ?? ""} after={now[row.after!] ?? ""} side={side} names={names} />
        ) : (
          <Highlighted text={text} language={language} />
        )}
      </div>
    );
  };
  return (
    <div class="diff">
      <div class="code-bar">
        <span class="muted">
          <b class="plus">+{diff.value.added}</b> <b class="minus">−{diff.value.removed}</b> lines
        </span>
        <CopyButton text={after} />
      </div>
      {mode === "inline" ? (
        <VirtualList
          className="mono"
          count={inline.length}
          rowHeight={ROW}
          label={label}
          columns={columns}
          scrolls
          row={(place) => {
            const row = inline[place]!;
            return row.kind === "fold" ? fold(row) : cell(row.row, row.side);
          }}
        />
      ) : (
        <div class="sides">
          {(["before", "after"] as const).map((side, place) => (
            <div class="half" key={side}>
              <div class="side-name">{sides[place]}</div>
              <VirtualList
                className="mono"
                count={shown.length}
                rowHeight={ROW}
                label={`${label}, ${sides[place]}`}
                columns={columns}
                scrolls
                group={group}
                row={(line) => {
                  const row = shown[line]!;
                  return row.kind === "fold" ? fold(row) : cell(row, side);
                }}
              />
            </div>
          ))}
        </div>
      )}
    </div>
  );
}

type Flat = { kind: "line"; row: DiffRow; side: "before" | "after" } | Extract<Shown, { kind: "fold" }>;

/** One column: of each block of changes first what went, then what came. */
function flattened(shown: Shown[]): Flat[] {
  const flat: Flat[] = [];
  let came: Flat[] = [];
  const settle = () => {
    flat.push(...came);
    came = [];
  };
  for (const row of shown) {
    if (row.kind === "fold") {
      settle();
      flat.push(row);
    } else if (row.kind === "same") {
      settle();
      flat.push({ kind: "line", row, side: "after" });
    } else {
      if (row.before !== null) flat.push({ kind: "line", row, side: "before" });
      if (row.after !== null) came.push({ kind: "line", row, side: "after" });
    }
  }
  settle();
  return flat;
}
