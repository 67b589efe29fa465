/** The beam search as a tree: each action tried, what it was estimated and measured at, and what was kept. */
import { useMemo, useState } from "preact/hooks";
import { useDocument } from "../data";
import type { BeamDocument, BeamNode, KernelEntry, Program } from "../documents";
import { count, counted, microseconds } from "../format";
import { type DrawnGraph, GraphView } from "../parts/graph";
import { Choice, Empty, Facts, Header, Waiting } from "../parts/small";
import { type Column, parseSort, Table } from "../parts/table";
import { go, href, type Route, withQuery } from "../route";
import { useKernelKeys } from "./kernel";

interface Path extends BeamNode {
  depth: number;
}

function paths(nodes: BeamNode[]): Path[] {
  const depths = new Map<number, number>();
  // Parents come before children: a search makes them in that order.
  return nodes.map((node) => {
    const depth = (node.parent === null ? -1 : depths.get(node.parent) ?? -1) + 1;
    depths.set(node.id, depth);
    return { ...node, depth };
  });
}

export function BeamView({ program, kernel, route }: { program: Program; kernel: KernelEntry; route: Route }) {
  useKernelKeys({ program, kernel }, "/beam");
  const number = kernel.id.split("/").pop() ?? "";
  const beam = useDocument<BeamDocument>(`${program.id}/beam/${number}.json`);
  const [only, setOnly] = useState<"kept" | "all">("all");
  const rows = useMemo(() => paths(beam.value?.nodes ?? []), [beam.value]);
  const shown = useMemo(() => {
    return only === "all" ? rows : rows.filter((row) => row.kept || row.parent === null);
  }, [rows, only]);
  const graph = useMemo<DrawnGraph>(
    () => ({
      nodes: shown.map((row) => ({
        id: String(row.id),
        title: row.parent === null ? row.action || "start" : row.action,
        detail: [microseconds(row.estimate_us), row.measured_us ? `measured ${microseconds(row.measured_us)}` : ""].filter(Boolean).join("  "),
        more: [row.schedule || "no action", row.outcome].filter(Boolean).join("  "),
        hue: row.kept ? 1 : 7,
      })),
      edges: shown.filter((row) => row.parent !== null).map((row) => [String(row.parent), String(row.id)]),
    }),
    [shown],
  );
  const columns = useMemo<Column<Path>[]>(
    () => [
      { key: "depth", from: 560, title: "depth", width: "60px", number: true, by: (row) => row.depth, cell: (row) => row.depth },
      { key: "kept", title: "kept", width: "60px", by: (row) => Number(!row.kept), cell: (row) => (row.kept ? <b class="plus">kept</b> : <span class="muted" title={row.outcome}>cut</span>) },
      { key: "schedule", title: "schedule", width: "minmax(200px, 3fr)", by: (row) => row.schedule, cell: (row) => <a class="mono" href={href(`${kernel.id}/schedule`, { text: row.schedule })} title={row.schedule}>{row.schedule || "no action"}</a> },
      { key: "estimate", title: "estimate", width: "90px", number: true, by: (row) => row.estimate_us, cell: (row) => microseconds(row.estimate_us) },
      { key: "measured", title: "measured", width: "90px", number: true, by: (row) => row.measured_us, cell: (row) => microseconds(row.measured_us) },
    ],
    [kernel],
  );
  if (beam.problem !== null) return <Empty>No search was made for this kernel: its schedule comes from the heuristic or the cache.</Empty>;
  if (beam.value === null) return <Waiting loaded={beam} />;
  const refusals = Object.entries(beam.value.refusals ?? {}).sort(([, a], [, b]) => b - a);
  return (
    <section class="view">
      <Header title="Beam search" sub={`${counted(rows.length, "schedule")}, ${rows.filter(({ kept }) => kept).length} kept`}>
        <Choice label="Schedules" options={[["all", "All"], ["kept", "Kept"]]} value={only} onChange={setOnly} />
      </Header>
      <Facts
        items={[
          ["considered", count(beam.value.considered)],
          ["rounds", count(beam.value.rounds)],
          ["took", microseconds((beam.value.seconds ?? 0) * 1e6)],
          ["ended", beam.value.ended || "–"],
          ["refused", count(refusals.reduce((sum, [, times]) => sum + times, 0))],
        ]}
      />
      {refusals.length > 0 && (
        <details class="note">
          <summary>Why actions were refused</summary>
          <ul class="reasons">
            {refusals.map(([reason, times]) => <li key={reason}><b>{count(times)}</b> {reason}</li>)}
          </ul>
        </details>
      )}
      <div class="columns">
        <GraphView graph={graph} label="Beam search" direction="LR" onOpen={(id) => go(href(`${kernel.id}/schedule`, { text: rows.find((row) => String(row.id) === id)?.schedule }))} />
        <Table rows={shown} columns={columns} sort={parseSort(route.query["sort"], "estimate")} onSort={(sort) => go(withQuery(route, { sort }), true)} label="Schedules" />
      </div>
    </section>
  );
}
