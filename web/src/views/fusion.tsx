/** For each pair of kernels that share a tensor: fused, or why not. */
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
  const only = route.query["only"] === "apart" ? "apart" : "all";
  const named = (id: string) => kernelOf(program, id)?.name ?? id;
  const rows = useMemo(
    () =>
      (fusion.value?.pairs ?? []).filter(
        (pair) => (only === "all" || !pair.fused) && (filter === "" || matches(filter, named(pair.producer), named(pair.consumer), pair.reason, pair.tensor)),
      ),
    [fusion.value, filter, only],
  );
  const columns = useMemo<Column<Pair>[]>(() => {
    const kernel = (id: string) => (kernelOf(program, id) ? <a class="mono" href={href(id)}>{named(id)}</a> : <span class="mono">{id}</span>);
    return [
      { key: "producer", title: "producer", width: "minmax(140px, 1fr)", by: (pair) => named(pair.producer), cell: (pair) => kernel(pair.producer) },
      { key: "consumer", title: "consumer", width: "minmax(140px, 1fr)", by: (pair) => named(pair.consumer), cell: (pair) => kernel(pair.consumer) },
      { key: "tensor", title: "tensor", width: "minmax(80px, 140px)", by: (pair) => pair.tensor ?? "", cell: (pair) => <span class="mono muted">{pair.tensor}</span> },
      { key: "fused", title: "fused", width: "64px", by: (pair) => Number(pair.fused), cell: (pair) => (pair.fused ? <b class="plus">yes</b> : <b class="minus">no</b>) },
      { key: "reason", title: "because", width: "minmax(220px, 2fr)", by: (pair) => pair.reason ?? "", cell: (pair) => <span title={pair.reason ?? ""}>{pair.reason}</span> },
    ];
  }, [program]);
  if (fusion.value === null) return <Waiting loaded={fusion} />;
  const apart = fusion.value.pairs.filter((pair) => !pair.fused).length;
  return (
    <section class="view">
      <Header title="Fusion" sub={`${counted(fusion.value.pairs.length, "pair")}, ${apart} apart`}>
        <Filter value={filter} label="Filter by kernel or reason" onInput={(text) => go(withQuery(route, { q: text }), true)} />
        <Choice label="Pairs" options={[["all", "All"], ["apart", "Not fused"]]} value={only} onChange={(value) => go(withQuery(route, { only: value === "apart" ? "apart" : null }), true)} />
      </Header>
      {rows.length === 0 ? <Empty>No pair of kernels.</Empty> : <Table rows={rows} columns={columns} sort={parseSort(route.query["sort"], "fused")} onSort={(sort) => go(withQuery(route, { sort }), true)} label="Pairs of kernels" />}
    </section>
  );
}
