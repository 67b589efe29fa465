/** For each two kernels of which one reads what the other makes, or that read the same: why they are not one. */
import { useMemo } from "preact/hooks";
import { kernelOf, useDocument } from "../data";
import type { FusionDocument, Program } from "../documents";
import { counted } from "../format";
import { Choice, Empty, Filter, Header, matches, Waiting } from "../parts/small";
import { type Column, parseSort, Table } from "../parts/table";
import { go, href, type Route, withQuery } from "../route";

type Pair = FusionDocument["pairs"][number];

export function FusionView({ program, route }: { program: Program; route: Route }) {
  const fusion = useDocument<FusionDocument>(`${program.id}/fusion.json`);
  const filter = route.query["q"] ?? "";
  const only = ["flow", "siblings"].find((each) => each === route.query["only"]) ?? "all";
  const named = (id: string) => kernelOf(program, id)?.name ?? id;
  const rows = useMemo(
    () =>
      (fusion.value?.pairs ?? []).filter(
        (pair) => (only === "all" || (only === "siblings") === (pair.sibling === true)) && (filter === "" || matches(filter, named(pair.producer), named(pair.consumer), pair.reason, pair.tensor)),
      ),
    [fusion.value, filter, only],
  );
  const columns = useMemo<Column<Pair>[]>(() => {
    const kernel = (id: string) => (kernelOf(program, id) ? <a class="mono" href={href(id)}>{named(id)}</a> : <span class="mono">{id}</span>);
    return [
      { key: "producer", title: "kernel", width: "minmax(140px, 1fr)", by: (pair) => named(pair.producer), cell: (pair) => kernel(pair.producer) },
      { key: "sibling", title: "", width: "84px", by: (pair) => Number(pair.sibling ?? false), cell: (pair) => <span class="muted">{pair.sibling ? "and" : "is read by"}</span> },
      { key: "consumer", title: "kernel", width: "minmax(140px, 1fr)", by: (pair) => named(pair.consumer), cell: (pair) => kernel(pair.consumer) },
      { key: "tensor", title: "tensor", width: "minmax(80px, 140px)", by: (pair) => pair.tensor ?? "", cell: (pair) => <span class="mono muted">{pair.tensor}</span> },
      { key: "reason", title: "two, because", width: "minmax(280px, 3fr)", by: (pair) => pair.reason ?? "", cell: (pair) => <span class="two-lines" title={pair.reason ?? ""}>{pair.reason}</span> },
    ];
  }, [program]);
  if (fusion.value === null) return <Waiting loaded={fusion} />;
  const siblings = fusion.value.pairs.filter((pair) => pair.sibling).length;
  const left = fusion.value.left_out ?? 0;
  return (
    <section class="view">
      <Header title="Fusion" sub={`${counted(fusion.value.pairs.length - siblings, "pair")} of which one reads what the other makes, ${siblings} that read the same${left > 0 ? `, ${left} left out` : ""}`}>
        <Filter value={filter} label="Filter by kernel or reason" onInput={(text) => go(withQuery(route, { q: text }), true)} />
        <Choice label="Pairs" options={[["all", "All"], ["flow", "One reads the other"], ["siblings", "Read the same"]]} value={only} onChange={(value) => go(withQuery(route, { only: value === "all" ? null : value }), true)} />
      </Header>
      {rows.length === 0 ? <Empty>No pair of kernels.</Empty> : <Table rows={rows} columns={columns} sort={parseSort(route.query["sort"], "sibling")} onSort={(sort) => go(withQuery(route, { sort }), true)} label="Pairs of kernels" rowHeight={42} />}
    </section>
  );
}
