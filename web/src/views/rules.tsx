/** Every rule that was met: its equation, how often it applied, and why it failed where it failed. */
import { useMemo } from "preact/hooks";
import { useDocument, useRecording } from "../data";
import type { PatternEntry, Program, RuleEntry, RuleFailures } from "../documents";
import { count, counted, ruleName } from "../format";
import { Bar, Filter, Header, matches, Waiting } from "../parts/small";
import { type Column, parseSort, Table } from "../parts/table";
import { go, type Route, withQuery } from "../route";

interface RuleRow extends RuleEntry {
  id: string;
  tried: number | null;
  applied: number | null;
  reasons: { reason: string; count: number; example?: string | null }[];
}

function rowsOf(rules: Record<string, RuleEntry>, patterns: PatternEntry[]): RuleRow[] {
  const known = new Map(patterns.map((pattern) => [pattern.rule, pattern]));
  const ids = new Set([...Object.keys(rules), ...known.keys()]);
  return [...ids].map((id) => {
    const pattern = known.get(id);
    return { ...(rules[id] ?? { name: id }), id, tried: pattern?.tried ?? null, applied: pattern?.applied ?? null, reasons: pattern?.failed ?? [] };
  });
}

export function RulesView({ program, route }: { program: Program; route: Route }) {
  const { index } = useRecording();
  const patterns = useDocument<{ patterns: PatternEntry[] }>(program.has?.patterns === false ? null : `${program.id}/patterns.json`);
  const filter = route.query["q"] ?? "";
  const chosenId = route.query["rule"];
  const all = useMemo(() => rowsOf(index.rules, patterns.value?.patterns ?? []), [index, patterns.value]);
  const rows = useMemo(() => (filter === "" ? all : all.filter((row) => matches(filter, row.name, row.equation, row.file, row.engine))), [all, filter]);
  const most = useMemo(() => all.reduce((high, row) => Math.max(high, row.applied ?? 0), 0), [all]);
  const columns = useMemo<Column<RuleRow>[]>(
    () => [
      { key: "name", title: "rule", width: "minmax(160px, 1.2fr)", by: (row) => row.name, cell: (row) => <span class="strong" title={row.name}>{ruleName(row.name)}</span> },
      { key: "equation", title: "equation", width: "minmax(160px, 2fr)", cell: (row) => <span class="mono">{row.equation}</span> },
      { key: "engine", title: "engine", width: "46px", by: (row) => row.engine ?? "", cell: (row) => row.engine },
      { key: "applied", title: "applied", width: "84px", number: true, by: (row) => row.applied, cell: (row) => <Bar part={row.applied ?? 0} whole={most}>{count(row.applied)}</Bar> },
      { key: "tried", title: "tried", width: "60px", number: true, by: (row) => row.tried, cell: (row) => count(row.tried) },
      { key: "failed", title: "reasons", width: "60px", number: true, by: (row) => row.reasons.length, cell: (row) => (row.engine === "uop" ? (row.tried !== row.applied ? "…" : "") : row.reasons.length ? count(row.reasons.length) : "") },
    ],
    [most],
  );
  const chosen = all.find(({ id }) => id === chosenId) ?? null;
  // Patterns of the graph IR are counted as they fail; rules of kernels are held to their nodes again when one asks.
  const worked = useDocument<RuleFailures>(chosen?.engine === "uop" ? `${program.id}/rule/${chosen.id}.json` : null);
  const reasons = chosen?.engine === "uop" ? (worked.value?.failed ?? []) : (chosen?.reasons ?? []);
  return (
    <section class="view">
      <Header title="Rules" sub={counted(all.length, "rule")}>
        <Filter value={filter} label="Filter by name or equation" onInput={(text) => go(withQuery(route, { q: text }), true)} />
      </Header>
      <div class="rewrites">
        <div class="pane">
          <Table
            rows={rows}
            columns={columns}
            sort={parseSort(route.query["sort"], "-applied")}
            onSort={(sort) => go(withQuery(route, { sort }), true)}
            label="Rules"
            current={chosen}
            link={(row) => withQuery(route, { rule: row.id })}
          />
        </div>
        <aside class="panel scroll" aria-label="Rule">
          {chosen === null ? (
            <p class="notice">Choose a rule to see why it failed where it failed.</p>
          ) : (
            <div class="step-detail open">
              <h2>{ruleName(chosen.name)}</h2>
              {chosen.equation && <pre class="equation">{chosen.equation}</pre>}
              <dl class="lines">
                {chosen.file && (<><dt>where</dt><dd class="mono">{chosen.file}{chosen.line ? `:${chosen.line}` : ""}</dd></>)}
                <dt>applied</dt><dd>{count(chosen.applied)} of {count(chosen.tried)} tries</dd>
              </dl>
              <h3>Why it did not apply</h3>
              {chosen.engine === "uop" && worked.value === null && <Waiting loaded={worked} />}
              {worked.value !== null && worked.value.looked > 0 && <p class="muted">{counted(worked.value.looked, "node")} of a few kernels, by reason</p>}
              {reasons.length === 0 && (chosen.engine !== "uop" || worked.value !== null) && <p class="muted">No node that it could match was left as it was.</p>}
              {reasons.map(({ reason, count: times, example }) => (
                <div class="failure" key={reason}>
                  <b>×{count(times)}</b> {reason}
                  {example && <pre class="expression">{example}</pre>}
                </div>
              ))}
            </div>
          )}
        </aside>
      </div>
    </section>
  );
}
