/** All kernels: sortable, filtered, those of the same ops folded into the first of their kind. */
import { useMemo, useState } from "preact/hooks";
import { bestTime, stepsOf } from "../data";
import type { KernelEntry, Program } from "../documents";
import { bytes, count, counted, flops, microseconds, milliseconds, rate, short } from "../format";
import { useKeys } from "../keys";
import { Bar, Choice, Filter, Header, matches } from "../parts/small";
import { type Column, parseSort, sorted, Table } from "../parts/table";
import { go, href, type Route, withQuery } from "../route";

const gflops = (kernel: KernelEntry): number | null => {
  const us = bestTime(kernel);
  return us && kernel.flops ? kernel.flops / us / 1e3 : null;
};
const gbs = (kernel: KernelEntry): number | null => {
  const us = bestTime(kernel);
  return us && kernel.bytes ? kernel.bytes / us / 1e3 : null;
};

function columnsFor(most: number): Column<KernelEntry>[] {
  return [
    { key: "place", title: "#", width: "52px", number: true, by: (kernel) => Number(kernel.id.split("/").pop()), cell: (kernel) => kernel.id.split("/").pop() },
    { key: "name", title: "kernel", width: "minmax(180px, 2fr)", by: (kernel) => kernel.name, cell: (kernel) => <span class="mono strong">{kernel.name}</span> },
    { key: "origin", title: "from", width: "minmax(120px, 1.4fr)", by: (kernel) => kernel.origin ?? "", cell: (kernel) => <span class="muted" title={kernel.origin ?? ""}>{short(kernel.origin)}</span> },
    { key: "repeats", title: "runs", width: "58px", number: true, by: (kernel) => kernel.repeats ?? 1, cell: (kernel) => (kernel.repeats ?? 1) > 1 ? `×${kernel.repeats}` : "" },
    { key: "flops", title: "work", width: "92px", number: true, by: (kernel) => kernel.flops, cell: (kernel) => flops(kernel.flops) },
    { key: "bytes", title: "traffic", width: "84px", number: true, by: (kernel) => kernel.bytes, cell: (kernel) => bytes(kernel.bytes) },
    { key: "estimate", from: 900, title: "estimate", width: "84px", number: true, by: (kernel) => kernel.estimate_us, cell: (kernel) => microseconds(kernel.estimate_us) },
    { key: "measured", title: "measured", width: "110px", number: true, by: bestTime, cell: (kernel) => <Bar part={kernel.measured_us ?? 0} whole={most}>{microseconds(kernel.measured_us)}</Bar> },
    { key: "gflops", from: 1150, title: "GFLOP/s", width: "76px", number: true, by: gflops, cell: (kernel) => rate(gflops(kernel), "") },
    { key: "gbs", from: 1150, title: "GB/s", width: "68px", number: true, by: gbs, cell: (kernel) => rate(gbs(kernel), "") },
    { key: "steps", title: "rewrites", width: "80px", number: true, by: stepsOf, cell: (kernel) => count(stepsOf(kernel)) },
    { key: "compile", from: 1250, title: "compile", width: "80px", number: true, by: (kernel) => kernel.compile_ms, cell: (kernel) => milliseconds(kernel.compile_ms) },
  ];
}

export function KernelsView({ program, route }: { program: Program; route: Route }) {
  const fold = route.query["repeats"] !== "all";
  const filter = route.query["q"] ?? "";
  const sort = parseSort(route.query["sort"], "place");
  const [at, setAt] = useState(-1);
  const rows = useMemo(
    () => program.kernels.filter((kernel) => (!fold || !kernel.like) && (filter === "" || matches(filter, kernel.name, kernel.origin, kernel.schedule))),
    [program, fold, filter],
  );
  const most = useMemo(() => program.kernels.reduce((high, kernel) => Math.max(high, kernel.measured_us ?? 0), 0), [program]);
  const columns = useMemo(() => columnsFor(most), [most]);
  const ordered = useMemo(() => sorted(rows, columns, sort), [rows, columns, sort.key, sort.down]);
  const current = ordered[at] ?? null;
  const move = (by: number) => setAt(Math.min(ordered.length - 1, Math.max(0, at + by)));
  useKeys([
    { keys: ["j", "ArrowDown"], does: "next kernel", run: () => move(1) },
    { keys: ["k", "ArrowUp"], does: "kernel before", run: () => move(-1) },
    { keys: ["o"], does: "open the kernel", run: () => current !== null && go(href(current.id)) },
  ]);
  const folded = program.kernels.length - program.kernels.filter(({ like }) => !like).length;
  return (
    <section class="view">
      <Header title="Kernels" sub={`${counted(program.kernels.length, "kernel")}${folded > 0 ? `, ${count(program.kernels.length - folded)} of different ops` : ""}`}>
        <Filter value={filter} label="Filter by name, line or action" onInput={(text) => go(withQuery(route, { q: text }), true)} />
        {folded > 0 && (
          <Choice
            label="Kernels alike"
            options={[["fold", "Fold alike"], ["all", "Show all"]]}
            value={fold ? "fold" : "all"}
            onChange={(value) => go(withQuery(route, { repeats: value === "all" ? "all" : null }), true)}
          />
        )}
      </Header>
      {rows.length === 0 ? (
        <p class="notice">No kernel matches.</p>
      ) : (
        <Table
          rows={rows}
          columns={columns}
          sort={sort}
          onSort={(text) => go(withQuery(route, { sort: text }), true)}
          label="Kernels"
          current={current}
          link={(kernel) => href(kernel.id)}
        />
      )}
    </section>
  );
}
