/** The timeline of a run, and each kernel against what the machine can do. */
import { useMemo, useState } from "preact/hooks";
import { kernelOf, useDocument, useRecording } from "../data";
import type { Program, Roofline, TimelineDocument, TimelineEvent } from "../documents";
import { bytes, counted, flops, microseconds, percent, rate } from "../format";
import { useKeys } from "../keys";
import { Plane } from "../parts/plane";
import { type Dot, RooflinePlot } from "../parts/roofline";
import { Bar, Empty, Facts, Header, Waiting } from "../parts/small";
import { type Column, parseSort, Table } from "../parts/table";
import { go, href, type Route, withQuery } from "../route";
import { hueOf } from "./dataflow";

interface KernelTime {
  kernel: string;
  name: string;
  us: number;
  runs: number;
  /** The fastest run, by which rates are told: the first ones find caches cold. */
  best: number;
  /** Of that run. */
  flops: number;
  bytes: number;
  share: number;
  /** GFLOP/s of the roof that it is held to. */
  peak: number;
}

/** The machine's peak for a dtype; where that was not measured, that of float32. */
const peakOf = (roofline: Roofline | null, dtype: string | undefined): number => roofline?.gflops[dtype ?? "f32"] ?? roofline?.gflops["f32"] ?? 0;

function byKernel(events: TimelineEvent[], program: Program, roofline: Roofline | null): KernelTime[] {
  const table = new Map<string, KernelTime>();
  for (const event of events) {
    const key = event.kernel ?? event.name;
    const entry = table.get(key) ?? { kernel: key, name: event.name, us: 0, runs: 0, best: Infinity, flops: 0, bytes: 0, share: 0, peak: peakOf(roofline, kernelOf(program, key)?.dtype) };
    entry.us += event.us;
    entry.runs += 1;
    if (event.us < entry.best) [entry.best, entry.flops, entry.bytes] = [event.us, event.flops ?? 0, event.bytes ?? 0];
    table.set(key, entry);
  }
  return [...table.values()];
}

/** The share of what the roofline allows at this intensity, by memory or by arithmetic. */
function attained(entry: KernelTime, roofline: Roofline | null): number | null {
  const memory = roofline?.gbs["memory"] ?? 0;
  const { peak } = entry;
  if (peak === 0 || memory === 0 || entry.best === 0 || entry.bytes === 0) return null;
  const limit = Math.max(entry.flops / peak, entry.bytes / memory) / 1e3;
  return limit / entry.best;
}

/** Events from 0 on, less the time between calls in which nothing of this program ran. */
function gathered(events: TimelineEvent[]): TimelineEvent[] {
  const ordered = [...events].sort((a, b) => a.start_us - b.start_us);
  const most = ordered.reduce((sum, event) => sum + event.us, 0) / 8;
  let [end, left] = [ordered[0]?.start_us ?? 0, ordered[0]?.start_us ?? 0];
  return ordered.map((event) => {
    left += Math.max(0, event.start_us - end - most);
    end = Math.max(end, event.start_us + event.us);
    return { ...event, start_us: event.start_us - left };
  });
}

export function TimelineView({ program, route }: { program: Program; route: Route }) {
  const { index } = useRecording();
  const runs = (index.runs ?? []).filter((run) => run.program === program.id);
  const run = runs.find(({ id }) => id === route.query["run"]) ?? runs[0];
  const timeline = useDocument<TimelineDocument>(run === undefined ? null : `${run.id}/timeline.json`);
  const [chosen, setChosen] = useState<number | null>(null);
  const [measured, setMeasured] = useState<Record<string, Roofline> | null>(null);
  const roofline = (measured ?? index.machine?.rooflines)?.[program.target ?? ""] ?? null;
  // A run starts where its first event does, however long the program was up by then.
  const events = useMemo(() => {
    return gathered(timeline.value?.events ?? []);
  }, [timeline.value]);
  const threads = useMemo(() => [...new Set(events.map((event) => String(event.thread ?? 0)))].sort(), [timeline.value]);
  const extent = useMemo(() => events.reduce((end, event) => Math.max(end, event.start_us + event.us), 1), [timeline.value]);
  const boxes = useMemo(
    () =>
      events.map((event) => ({
        x: event.start_us,
        width: event.us,
        y: (threads.indexOf(String(event.thread ?? 0)) + 0.12) / threads.length,
        height: 0.8 / threads.length,
        hue: hueOf(event.name),
        text: event.name,
      })),
    [timeline.value, threads],
  );
  const kernels = useMemo(() => {
    const all = byKernel(events, program, roofline);
    const total = all.reduce((sum, entry) => sum + entry.us, 0);
    return all.map((entry) => ({ ...entry, share: entry.us / total })).sort((a, b) => b.us - a.us);
  }, [timeline.value, roofline]);
  const dots = useMemo<Dot[]>(
    () =>
      kernels
        .filter((entry) => entry.flops > 0 && entry.bytes > 0 && entry.best > 0)
        .map((entry) => ({ id: entry.kernel, name: entry.name, intensity: entry.flops / entry.bytes, gflops: entry.flops / entry.best / 1e3, weight: entry.share, hue: hueOf(entry.name) })),
    [kernels],
  );
  const columns = useMemo<Column<KernelTime>[]>(() => {
    const most = kernels[0]?.us ?? 0;
    return [
      { key: "name", title: "kernel", width: "minmax(160px, 2fr)", by: (entry) => entry.name, cell: (entry) => <span class="mono">{entry.name}</span> },
      { key: "runs", from: 690, title: "runs", width: "56px", number: true, by: (entry) => entry.runs, cell: (entry) => entry.runs },
      { key: "us", title: "time", width: "110px", number: true, by: (entry) => entry.us, cell: (entry) => <Bar part={entry.us} whole={most}>{microseconds(entry.us)}</Bar> },
      { key: "best", from: 640, title: "fastest", width: "76px", number: true, by: (entry) => entry.best, cell: (entry) => microseconds(entry.best) },
      { key: "share", from: 560, title: "share", width: "70px", number: true, by: (entry) => entry.share, cell: (entry) => percent(entry.share, 1) },
      { key: "gflops", title: "GFLOP/s", width: "80px", number: true, by: (entry) => entry.flops / entry.best, cell: (entry) => rate(entry.flops / entry.best / 1e3, "") },
      { key: "gbs", from: 780, title: "GB/s", width: "70px", number: true, by: (entry) => entry.bytes / entry.best, cell: (entry) => rate(entry.bytes / entry.best / 1e3, "") },
      { key: "roof", title: "of roofline", width: "100px", number: true, by: (entry) => attained(entry, roofline), cell: (entry) => { const part = attained(entry, roofline); return part === null ? "–" : <Bar part={part} whole={1}>{percent(part, 1)}</Bar>; } },
    ];
  }, [kernels, roofline]);
  const event = chosen === null ? undefined : events[chosen];
  const open = (id: string | null | undefined) => id && kernelOf(program, id) && go(href(id));
  useKeys([{ keys: ["o"], does: "open the chosen kernel", run: () => open(event?.kernel) }]);
  if (run === undefined) return <Empty>The program was compiled and not run while it was recorded.</Empty>;
  if (timeline.value === null) return <Waiting loaded={timeline} />;
  const describe = (place: number) => {
    const { name, start_us, us, gflops, gbs, flops: work, bytes: traffic } = events[place]!;
    return `${name}  ${microseconds(us)} at ${microseconds(start_us)}  ${rate(gflops, "GFLOP/s")}  ${rate(gbs, "GB/s")}  ${flops(work)}  ${bytes(traffic)}`;
  };
  return (
    <section class="view">
      <Header title="Timeline" sub={`${counted(events.length, "event")} in ${microseconds(run.total_us ?? extent)}`}>
        {runs.length > 1 && (
          <select aria-label="Run" value={run.id} onChange={(change) => go(withQuery(route, { run: change.currentTarget.value }), true)}>
            {runs.map(({ id, total_us }) => <option key={id} value={id}>{`${id}: ${microseconds(total_us)}`}</option>)}
          </select>
        )}
      </Header>
      <Facts
        items={[
          ["wall", microseconds(run.total_us ?? extent)],
          ["in kernels", microseconds(kernels.reduce((sum, entry) => sum + entry.us, 0))],
          ["threads", `${threads.length}`],
          ["chosen", event === undefined ? "–" : <>{describe(chosen!)} {event.kernel && kernelOf(program, event.kernel) && <a href={href(event.kernel)}>open</a>}</>],
        ]}
      />
      {timeline.value.note && <p class="note">{timeline.value.note}</p>}
      <Plane
        boxes={boxes}
        extent={extent}
        label="Events over time, one row for each thread"
        tick={microseconds}
        height={Math.min(320, 40 + 56 * threads.length)}
        rows={threads.length > 1 ? threads.map((name, place) => ({ y: place / threads.length, name: `thread ${name}` })) : []}
        chosen={chosen}
        onChoose={setChosen}
        describe={describe}
      />
      <div class="columns wide-left">
        <Table rows={kernels} columns={columns} sort={parseSort(route.query["sort"], "-us")} onSort={(sort) => go(withQuery(route, { sort }), true)} label="Time by kernel" link={(entry) => href(entry.kernel)} />
        <RooflinePlot dots={dots} roofline={roofline} onOpen={open} onMeasured={index.live ? setMeasured : undefined} />
      </div>
    </section>
  );
}
