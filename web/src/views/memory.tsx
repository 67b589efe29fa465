/** The memory plan: which buffer lies where, from its first to its last use. */
import { useMemo, useState } from "preact/hooks";
import { useDocument } from "../data";
import type { BufferEntry, MemoryDocument, Program } from "../documents";
import { bytes, count, counted, percent } from "../format";
import { MemoryCurve, memoryUse } from "../parts/memory_curve";
import { Plane } from "../parts/plane";
import { Facts, Header, Waiting } from "../parts/small";
import { type Column, parseSort, Table } from "../parts/table";
import { go, type Route, withQuery } from "../route";
import { hueOf } from "./dataflow";

const COLUMNS: Column<BufferEntry>[] = [
  { key: "name", title: "buffer", width: "minmax(140px, 2fr)", by: (buffer) => buffer.name, cell: (buffer) => <span class="mono">{buffer.name}</span> },
  { key: "role", title: "role", width: "90px", by: (buffer) => buffer.role ?? "", cell: (buffer) => buffer.role },
  { key: "bytes", title: "size", width: "90px", number: true, by: (buffer) => buffer.bytes, cell: (buffer) => bytes(buffer.bytes) },
  { key: "offset", title: "offset", width: "90px", number: true, by: (buffer) => buffer.offset, cell: (buffer) => (buffer.offset === null ? "caller's" : bytes(buffer.offset)) },
  { key: "first", title: "first", width: "64px", number: true, by: (buffer) => buffer.first, cell: (buffer) => buffer.first },
  { key: "last", title: "last", width: "64px", number: true, by: (buffer) => buffer.last, cell: (buffer) => buffer.last },
];

export function MemoryView({ program, route }: { program: Program; route: Route }) {
  const memory = useDocument<MemoryDocument>(`${program.id}/memory.json`);
  const [chosen, setChosen] = useState<number | null>(null);
  const plan = memory.value;
  // What the caller owns has no place in the arena; the table lists it.
  const arena = useMemo(() => (plan?.buffers ?? []).filter(({ offset }) => offset !== null), [plan]);
  const top = useMemo(() => arena.reduce((high, buffer) => Math.max(high, (buffer.offset ?? 0) + buffer.bytes), plan?.peak || 1), [arena]);
  const use = useMemo(() => memoryUse(arena, plan?.steps ?? 0), [arena]);
  const boxes = useMemo(
    () =>
      arena.map((buffer) => ({
        x: buffer.first,
        width: Math.max(1, buffer.last - buffer.first + 1),
        y: 1 - ((buffer.offset ?? 0) + buffer.bytes) / top,
        height: buffer.bytes / top,
        hue: hueOf(buffer.name),
        text: buffer.name,
      })),
    [arena, top],
  );
  if (plan === null) return <Waiting loaded={memory} />;
  const sum = plan.unshared ?? arena.reduce((total, buffer) => total + buffer.bytes, 0);
  const buffer = chosen === null ? null : arena[chosen] ?? null;
  const describe = (place: number) => {
    const { name, bytes: size, offset, first, last } = arena[place]!;
    const [from, to] = [first, last].map((step) => plan.labels?.[step] || `step ${step}`);
    return `${name}  ${bytes(size)} at ${bytes(offset)}, from ${from} to ${to}`;
  };
  return (
    <section class="view">
      <Header title="Memory plan" sub={`${counted(plan.buffers.length, "buffer")} over ${counted(plan.steps, "step")}`} />
      {arena.length === 0 && <p class="notice">No buffer lies in the arena: every tensor is the caller's.</p>}
      <Facts
        items={[
          ["arena", bytes(plan.peak)],
          ["at least", bytes(plan.lower_bound)],
          ["without sharing", bytes(sum)],
          ["kept", percent(plan.peak, sum)],
          ["chosen", buffer === null ? "–" : describe(chosen!)],
          ["steps", count(plan.steps)],
        ]}
      />
      <MemoryCurve use={use} arena={plan.peak} labels={plan.labels ?? []} />
      <Plane boxes={boxes} extent={Math.max(1, plan.steps)} counts label="Buffers over steps, address upwards" tick={(step) => `${Math.round(step)}`} chosen={chosen} onChoose={setChosen} describe={describe} />
      <Table
        rows={plan.buffers}
        columns={COLUMNS}
        sort={parseSort(route.query["sort"], "-bytes")}
        onSort={(sort) => go(withQuery(route, { sort }), true)}
        label="Buffers"
        current={buffer}
      />
    </section>
  );
}
