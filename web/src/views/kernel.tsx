/** One kernel: its figures, its loop nest, its way through the stages, and whom it reads and feeds. */
import { kernelOf, useDocument } from "../data";
import type { FusionDocument, KernelEntry, Program, WhyDocument } from "../documents";
import { bytes, count, flops, microseconds, milliseconds, rate } from "../format";
import { useKeys } from "../keys";
import { Nest } from "../parts/nest";
import { Facts, Header } from "../parts/small";
import { go, href } from "../route";

export interface KernelProps {
  program: Program;
  kernel: KernelEntry;
}

/** `[` and `]` walk over the kernels and keep the part that is shown. */
export function useKernelKeys({ program, kernel }: KernelProps, part: string): void {
  const place = program.kernels.indexOf(kernel);
  const move = (by: number) => {
    const next = program.kernels[place + by];
    if (next !== undefined) go(href(next.id + part));
  };
  useKeys([
    { keys: ["]"], does: "next kernel", run: () => move(1) },
    { keys: ["["], does: "kernel before", run: () => move(-1) },
  ]);
}

export function KernelView({ program, kernel }: KernelProps) {
  useKernelKeys({ program, kernel }, "");
  const why = useDocument<WhyDocument>(`${kernel.id}/why.json`);
  const fusion = useDocument<FusionDocument>(program.has?.fusion ? `${program.id}/fusion.json` : null);
  const apart = (producer: string, consumer: string): string =>
    fusion.value?.pairs.find((pair) => pair.producer === producer && pair.consumer === consumer && !pair.fused)?.reason ?? "";
  const us = kernel.measured_us ?? kernel.estimate_us;
  const edges = program.edges ?? [];
  const reads = edges.filter(([, to]) => to === kernel.id);
  const feeds = edges.filter(([from]) => from === kernel.id);
  const changed = kernel.stages.filter((stage) => stage.changed);
  return (
    <section class="view scroll">
      <Header title={<span class="mono">{kernel.name}</span>} sub={kernel.origin ?? ""}>
        {changed[0] && <a class="button" href={href(`${kernel.id}/stage/${changed[0].n}`)}>First stage →</a>}
      </Header>
      {kernel.like && (
        <p class="note">
          The same ops as <a class="mono" href={href(kernel.like)}>{kernelOf(program, kernel.like)?.name ?? kernel.like}</a>, at other sizes.
        </p>
      )}
      {kernel.error && <p class="notice bad" role="alert">{kernel.error}</p>}
      {(kernel.parts?.length ?? 0) > 0 && (
        <p class="note">
          A loop as one kernel; a turn of it runs {kernel.parts!.map((id) => <><a class="mono" href={href(id)}>{kernelOf(program, id)?.name ?? id}</a> </>)}
        </p>
      )}
      <Facts
        items={[
          ["measured", microseconds(kernel.measured_us)],
          ["estimate", microseconds(kernel.estimate_us)],
          ["work", flops(kernel.flops)],
          ["traffic", bytes(kernel.bytes)],
          ["rate", us && kernel.flops ? rate(kernel.flops / us / 1e3, "GFLOP/s") : "–"],
          ["bandwidth", us && kernel.bytes ? rate(kernel.bytes / us / 1e3, "GB/s") : "–"],
          ["compiled in", milliseconds(kernel.compile_ms)],
          ["runs", count(kernel.repeats ?? 1)],
        ]}
      />
      <div class="two">
        <section class="part">
          <h2>Loop nest</h2>
          {why.value?.nest ? <Nest loops={why.value.nest.loops} /> : <p class="muted">{why.problem ?? "No loop nest recorded."}</p>}
          <h2>Schedule</h2>
          <p class="mono wrap">{kernel.schedule || "no action: the loops as they were written"}</p>
          <p><a href={href(`${kernel.id}/schedule`)}>Edit the schedule</a> · <a href={href(`${kernel.id}/why`)}>Why this one</a></p>
        </section>
        <section class="part">
          <h2>Reads</h2>
          <Tensors program={program} entries={reads.map(([from, to, tensor, size]) => [from, tensor, size, apart(from, to)])} />
          <h2>Feeds</h2>
          <Tensors program={program} entries={feeds.map(([from, to, tensor, size]) => [to, tensor, size, apart(from, to)])} />
        </section>
      </div>
    </section>
  );
}

function Tensors({ program, entries }: { program: Program; entries: [string, string, number, string][] }) {
  if (entries.length === 0) return <p class="muted">nothing recorded</p>;
  return (
    <table class="plain-table">
      <tbody>
        {entries.slice(0, 100).map(([id, tensor, size, reason]) => {
          const other = kernelOf(program, id);
          return (
            <tr key={`${id} ${tensor}`}>
              <td class="mono">{tensor}</td>
              <td class="number">{bytes(size)}</td>
              <td>{other === undefined ? <span class="muted">{id}</span> : <a class="mono" href={href(id)}>{other.name}</a>}{reason && <div class="muted reason">apart: {reason}</div>}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
