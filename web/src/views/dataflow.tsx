/** Which kernel feeds which, as a graph. */
import { useMemo } from "preact/hooks";
import { kernelOf } from "../data";
import type { Program } from "../documents";
import { bytes, counted, microseconds, short } from "../format";
import { type DrawnGraph, GraphView } from "../parts/graph";
import { Choice, Empty, Header } from "../parts/small";
import { go, href, type Route, withQuery } from "../route";

/** Kernels of the same origin or name share a colour. */
export function hueOf(text: string): number {
  let hash = 0;
  for (let place = 0; place < text.length; place++) hash = (hash * 31 + text.charCodeAt(place)) | 0;
  return Math.abs(hash) % 8;
}

/** More inputs than this hide the kernels: they are left out until one asks for them. */
const FEW_INPUTS = 12;

export function DataflowView({ program, route }: { program: Program; route: Route }) {
  const inputs = useMemo(() => new Set((program.edges ?? []).map(([from]) => from).filter((id) => kernelOf(program, id) === undefined)).size, [program]);
  const shown = (route.query["inputs"] ?? (inputs > FEW_INPUTS ? "no" : "yes")) === "yes";
  const graph = useMemo<DrawnGraph>(() => {
    const edges = (program.edges ?? []).filter(([from]) => shown || kernelOf(program, from) !== undefined);
    const outside = new Set(edges.flatMap(([from, to]) => [from, to]).filter((id) => kernelOf(program, id) === undefined));
    return {
      nodes: [
        ...[...outside].map((id) => ({ id, title: id, hue: 7, more: "comes from or goes outside the program" })),
        ...program.kernels.map((kernel) => ({
          id: kernel.id,
          title: kernel.name,
          detail: [microseconds(kernel.measured_us ?? kernel.estimate_us), short(kernel.origin)].filter(Boolean).join("  "),
          more: `${kernel.id}  reads and writes ${bytes(kernel.bytes)}  ${kernel.schedule ?? ""}`,
          hue: hueOf((kernel.origin ?? kernel.name).replace(/^.*\s/, "")),
        })),
      ],
      edges: edges.map(([from, to, tensor]) => [from, to, tensor]),
    };
  }, [program, shown]);
  const open = (id: string) => kernelOf(program, id) !== undefined && go(href(id));
  return (
    <section class="view">
      <Header title="Dataflow" sub={`${counted(program.kernels.length, "kernel")}, ${counted(program.edges?.length ?? 0, "tensor")} between them`}>
        <Choice
          label="Inputs"
          options={[["no", "Kernels only"], ["yes", `With ${counted(inputs, "input")}`]]}
          value={shown ? "yes" : "no"}
          onChange={(value) => go(withQuery(route, { inputs: value }), true)}
        />
      </Header>
      {graph.nodes.length === 0 ? <Empty>No kernel was compiled.</Empty> : <GraphView graph={graph} label="Dataflow between kernels" onOpen={open} />}
    </section>
  );
}
