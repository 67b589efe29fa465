/** Two recordings side by side: kernels matched by name and origin, figures as ratios, code as a diff. */
import { useMemo } from "preact/hooks";
import { stepsOf, useDocument, useRecording } from "../data";
import type { Index, KernelEntry, LevelDocument, StageDocument } from "../documents";
import { counted, microseconds, milliseconds, ratio, short } from "../format";
import { DiffView, type DiffMode } from "../parts/code";
import { levelName } from "../parts/side";
import { Choice, Empty, Facts, Filter, Header, matches, Waiting } from "../parts/small";
import { type Column, parseSort, Table } from "../parts/table";
import { go, type Route, withQuery } from "../route";

interface Pair {
  key: string;
  a: KernelEntry | null;
  b: KernelEntry | null;
}

interface Named {
  program: string;
  kernel: KernelEntry;
}

/** How two kernels are the same: by the name, which ends in a hash of what is computed; else by what stands before that. */
const SAME: ((named: Named) => string)[] = [
  ({ program, kernel }) => `${program} ${kernel.name}`,
  ({ program, kernel }) => `${program} ${kernel.name.replace(/_[0-9a-f]{4,}$/, "")}`,
];

/** The n-th kernel of a key in one recording belongs to the n-th in the other; the stricter key goes first. */
function pairs(first: Index, second: Index): Pair[] {
  const all = (index: Index): Named[] => index.programs.flatMap(({ name, kernels }) => kernels.map((kernel) => ({ program: name, kernel })));
  let [left, right] = [all(first), all(second)];
  const found: Pair[] = [];
  for (const same of SAME) {
    const table = new Map<string, Named[]>();
    for (const named of right) table.set(same(named), [...(table.get(same(named)) ?? []), named]);
    const taken = new Set<Named>();
    left = left.filter((named) => {
      const other = table.get(same(named))?.shift();
      if (other === undefined) return true;
      taken.add(other);
      found.push({ key: named.kernel.id, a: named.kernel, b: other.kernel });
      return false;
    });
    right = right.filter((named) => !taken.has(named));
  }
  found.push(...left.map(({ kernel }) => ({ key: kernel.id, a: kernel, b: null })));
  found.push(...right.map(({ kernel }) => ({ key: `b/${kernel.id}`, a: null, b: kernel })));
  return found;
}

const quotient = (a: number | null | undefined, b: number | null | undefined): number | null => (a && b ? a / b : null);
const time = (kernel: KernelEntry | null): number | null => kernel?.measured_us ?? kernel?.estimate_us ?? null;
const state = ({ a, b }: Pair): string => (a === null ? "only B" : b === null ? "only A" : a.schedule !== b.schedule ? "other schedule" : stepsOf(a) !== stepsOf(b) ? "other rewrites" : "same");

function Speed({ value }: { value: number | null }) {
  const tone = value === null || Math.abs(value - 1) < 0.03 ? "muted" : value > 1 ? "plus" : "minus";
  return <b class={tone}>{ratio(value)}</b>;
}

const COLUMNS: Column<Pair>[] = [
  { key: "name", title: "kernel", width: "minmax(160px, 2fr)", by: ({ a, b }) => (a ?? b)!.name, cell: ({ a, b }) => <span class="mono strong">{(a ?? b)!.name}</span> },
  { key: "origin", title: "from", width: "minmax(100px, 1fr)", by: ({ a, b }) => (a ?? b)!.origin ?? "", cell: ({ a, b }) => <span class="muted" title={(a ?? b)!.origin ?? ""}>{short((a ?? b)!.origin)}</span> },
  { key: "state", title: "state", width: "120px", by: state, cell: state },
  { key: "a", title: "A", width: "84px", number: true, by: ({ a }) => time(a), cell: ({ a }) => microseconds(time(a)) },
  { key: "b", title: "B", width: "84px", number: true, by: ({ b }) => time(b), cell: ({ b }) => microseconds(time(b)) },
  { key: "speed", title: "B is faster", width: "92px", number: true, by: ({ a, b }) => quotient(time(a), time(b)), cell: ({ a, b }) => <Speed value={quotient(time(a), time(b))} /> },
  { key: "compile", title: "compile", width: "84px", number: true, by: ({ a, b }) => quotient(a?.compile_ms, b?.compile_ms), cell: ({ a, b }) => <Speed value={quotient(a?.compile_ms, b?.compile_ms)} /> },
  { key: "steps", title: "rewrites", width: "90px", number: true, by: ({ a, b }) => (b ? stepsOf(b) : 0) - (a ? stepsOf(a) : 0), cell: ({ a, b }) => { const by = (b ? stepsOf(b) : 0) - (a ? stepsOf(a) : 0); return by === 0 ? "=" : by > 0 ? `+${by}` : `−${-by}`; } },
];

const total = (index: Index, of: (kernel: KernelEntry) => number | null | undefined): number =>
  index.programs.reduce((sum, program) => sum + program.kernels.reduce((own, kernel) => own + (of(kernel) ?? 0), 0), 0);

export function CompareView({ route }: { route: Route }) {
  const { index } = useRecording();
  const other = index.compare ?? null;
  const all = useMemo(() => (other === null ? [] : pairs(index, other)), [index]);
  const filter = route.query["q"] ?? "";
  const differs = route.query["only"] === "differs";
  const rows = useMemo(
    () => all.filter((pair) => (!differs || state(pair) !== "same") && (filter === "" || matches(filter, pair.a?.name, pair.b?.name, pair.a?.origin, pair.b?.origin))),
    [all, filter, differs],
  );
  if (other === null) return <Empty>One recording was opened. <code>planish viz A B</code> compares two.</Empty>;
  const chosen = all.find(({ key }) => key === route.query["kernel"]) ?? null;
  const change = (changes: Record<string, string | null>) => go(withQuery(route, changes), true);
  const compiled = (of: Index) => of.programs.reduce((sum, program) => sum + (program.compile_ms ?? 0), 0);
  const kernels = (of: Index) => of.programs.reduce((sum, program) => sum + program.kernels.length, 0);
  return (
    <section class="view">
      <Header title="Compare" sub={<>A: {index.title ?? index.command} · B: {other.title ?? other.command}</>}>
        <Filter value={filter} label="Filter kernels" onInput={(q) => change({ q })} />
        <Choice label="Pairs" options={[["all", "All"], ["differs", "Differing"]]} value={differs ? "differs" : "all"} onChange={(value) => change({ only: value === "all" ? null : value })} />
      </Header>
      <Facts
        items={[
          ["kernels", `${kernels(index)} | ${kernels(other)}`],
          ["kernel time", <>{microseconds(total(index, time))} | {microseconds(total(other, time))}</>],
          ["B is faster", <Speed value={quotient(total(index, time), total(other, time))} />],
          ["compile time", `${milliseconds(compiled(index))} | ${milliseconds(compiled(other))}`],
          ["rewrites", `${total(index, stepsOf)} | ${total(other, stepsOf)}`],
          ["differing", counted(all.filter((pair) => state(pair) !== "same").length, "kernel")],
        ]}
      />
      <div class={chosen === null ? "columns one" : "rows"}>
        <Table rows={rows} columns={COLUMNS} sort={parseSort(route.query["sort"], "-speed")} onSort={(sort) => change({ sort })} label="Kernels of both" current={chosen} link={(pair) => withQuery(route, { kernel: pair.key })} />
        {chosen !== null && <Codes pair={chosen} route={route} change={change} />}
      </div>
    </section>
  );
}

const textOf = (document: LevelDocument | StageDocument | null): string => (document === null ? "" : "text" in document ? document.text : document.after);

function Codes({ pair, route, change }: { pair: Pair; route: Route; change: (changes: Record<string, string | null>) => void }) {
  const { a, b } = pair;
  const levels = [...new Set([...(a?.levels ?? []), ...(b?.levels ?? [])])];
  const stages = (a ?? b)!.stages;
  const asked = route.query["level"] ?? "";
  const stage = stages.find(({ n }) => asked === `stage/${n}`);
  const level = stage !== undefined || levels.includes(asked) ? asked : levels[0] ?? "";
  const mode: DiffMode = route.query["mode"] === "inline" ? "inline" : "side";
  const path = (kernel: KernelEntry | null, prefix: string) => {
    if (kernel === null) return null;
    if (stage !== undefined) return kernel.stages.some(({ n }) => n === stage.n) ? `${prefix}${kernel.id}/${level}.json` : null;
    return kernel.levels.includes(level) ? `${prefix}${kernel.id}/level/${level}.json` : null;
  };
  const [left, right] = [path(a, ""), path(b, "b/")];
  const first = useDocument<LevelDocument | StageDocument>(left);
  const second = useDocument<LevelDocument | StageDocument>(right);
  if (level === "") return <Empty>No code was recorded for this kernel.</Empty>;
  const waits = (left !== null && first.value === null) || (right !== null && second.value === null);
  return (
    <div class="pane">
      <div class="tools">
        <Choice label="Level" options={levels.map((name) => [name, levelName(name)] as const)} value={level} onChange={(value) => change({ level: value })} />
        <select aria-label="Stage" value={stage === undefined ? "" : level} onChange={(event) => change({ level: event.currentTarget.value || null })}>
          <option value="">after a stage …</option>
          {stages.map(({ n, name }) => <option key={n} value={`stage/${n}`}>{`${n} ${name}`}</option>)}
        </select>
        <Choice label="How to show it" options={[["side", "Side by side"], ["inline", "Inline"]]} value={mode} onChange={(value) => change({ mode: value === "side" ? null : value })} />
        <button type="button" class="small" onClick={() => change({ kernel: null })}>Close</button>
      </div>
      {waits ? (
        <Waiting loaded={first.value === null ? first : second} />
      ) : (
        <DiffView before={textOf(first.value)} after={textOf(second.value)} mode={mode} language={level} label={`${stage?.name ?? levelName(level)} of both`} sides={["A", "B"]} />
      )}
    </div>
  );
}
