/** The journey: from the program to the timeline as one picture, each part of which leads to it. */
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { bestTime, kernelOf, stepsOf, useRecording } from "../data";
import type { KernelEntry, Program } from "../documents";
import { bytes, count, counted, flops, microseconds, milliseconds, percent, short, when } from "../format";
import { levelName } from "../parts/side";
import { Bar, Facts, Header } from "../parts/small";
import { href, type Route, withQuery } from "../route";

const SOURCES = ["llvm", "c", "cuda", "ptx"];
const MACHINE = ["asm", "sass"];
const HOTTEST = 8;

export function JourneyView({ program, route }: { program: Program; route: Route }) {
  const { index } = useRecording();
  const hot = useMemo(
    () => [...program.kernels].sort((a, b) => weight(b) - weight(a)).slice(0, HOTTEST),
    [program],
  );
  const kernel = kernelOf(program, route.query["kernel"] ?? "") ?? hot[0];
  const { machine, created, command } = index;
  const place = program.user ? `${program.user.file}:${program.user.line}` : "";
  return (
    <section class="view scroll">
      <Header title={program.name} sub={<span title={place}>{short(place) || command}</span>} />
      {program.error && <p class="notice bad" role="alert">{program.error}</p>}
      {index.error && <pre class="notice bad" role="alert">{index.error}</pre>}
      <Facts
        items={[
          ["target", program.target ?? machine?.target ?? "–"],
          ["machine", machine?.name ?? "–"],
          ["compiled in", milliseconds(program.compile_ms)],
          ["kernels", count(program.kernels.length)],
          ["rewrites", count(programSteps(program))],
          ["recorded", when(created)],
          ["planish", index.planish ?? "–"],
        ]}
      />
      <Flow program={program} kernel={kernel} />
      <div class="journey-parts">
        <div>
          <Phases program={program} />
          <Passes program={program} />
          <Hottest program={program} hot={hot} kernel={kernel} route={route} />
        </div>
        {kernel !== undefined && <Stages kernel={kernel} />}
      </div>
    </section>
  );
}

const weight = (kernel: KernelEntry): number => (bestTime(kernel) ?? 0) * (kernel.repeats ?? 1);

const programSteps = (program: Program): number =>
  program.passes.reduce((sum, pass) => sum + pass.steps, 0) +
  program.kernels.reduce((sum, kernel) => sum + stepsOf(kernel), 0);

/** The picture itself: eight stations, each with its figure. */
function Flow({ program, kernel }: { program: Program; kernel: KernelEntry | undefined }) {
  const { index } = useRecording();
  const run = index.runs?.find((entry) => entry.program === program.id);
  const has = (names: string[]) => kernel?.levels.find((level) => names.includes(level));
  const source = has(SOURCES);
  const assembly = has(MACHINE);
  const passSteps = program.passes.reduce((sum, pass) => sum + pass.steps, 0);
  const stations: [string, string, string, string | null][] = [
    ["Program", program.target ?? "", program.name, program.passes.length ? `${program.id}/pass/0` : null],
    ["PTIR passes", counted(passSteps, "rewrite"), counted(program.passes.length, "pass").replace("passs", "passes"), program.passes.length ? `${program.id}/pass/${program.passes.length - 1}` : null],
    ["Kernels", program.has?.fusion ? "and why not fewer" : "dataflow", counted(program.kernels.length, "kernel"), `${program.id}/kernels`],
    ["Stages", kernel ? counted(stepsOf(kernel), "rewrite") : "", kernel ? counted(kernel.stages.filter((stage) => stage.n > 0).length, "stage") : "–", kernel?.stages.length ? `${kernel.id}/stage/${kernel.stages[0]!.n}` : null],
    ["Linear code", kernel?.name ?? "", "LLIR", kernel?.levels.includes("llir") ? `${kernel.id}/level/llir` : null],
    ["Source", kernel?.name ?? "", source ? levelName(source) : "–", source && kernel ? `${kernel.id}/level/${source}` : null],
    ["Machine code", kernel?.name ?? "", assembly ? levelName(assembly) : "–", assembly && kernel ? `${kernel.id}/level/${assembly}` : null],
    ["Timeline", run ? "one run" : "not run", run ? microseconds(run.total_us) : "–", run ? `${program.id}/timeline` : null],
  ];
  return (
    <ol class="flow" aria-label="The journey">
      {stations.map(([name, small, big, path]) => {
        const body = (
          <>
            <span class="station">{name}</span>
            <b>{big}</b>
            <span class="muted">{small}</span>
          </>
        );
        return <li key={name}>{path === null ? <div class="card off">{body}</div> : <a class="card" href={href(path)}>{body}</a>}</li>;
      })}
    </ol>
  );
}

function Part({ title, sub, children }: { title: string; sub?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="part">
      <h2>
        {title} {sub !== undefined && <span class="muted">{sub}</span>}
      </h2>
      {children}
    </section>
  );
}

function Phases({ program }: { program: Program }) {
  const phases = (program.phases ?? []).filter(({ ms }) => ms > 0);
  const total = phases.reduce((sum, { ms }) => sum + ms, 0);
  if (total === 0) return null;
  return (
    <Part title="Where compile time went" sub={milliseconds(total)}>
      <div class="stack" aria-hidden="true">
        {phases.map(({ name, ms }, place) => (
          <span key={name} class={`hue-${place % 8}`} style={{ width: `${(100 * ms) / total}%` }} title={`${name}: ${milliseconds(ms)}`} />
        ))}
      </div>
      <ul class="legend">
        {phases.map(({ name, ms }, place) => (
          <li key={name}>
            <span class={`dot hue-${place % 8}`} /> {name} <b>{milliseconds(ms)}</b> <span class="muted">{percent(ms, total)}</span>
          </li>
        ))}
      </ul>
    </Part>
  );
}

function Passes({ program }: { program: Program }) {
  return (
    <Part title="Passes" sub="in order; faint ones changed nothing">
      <ol class="chips">
        {program.passes.map((pass, place) => (
          <li key={pass.id}>
            <a class={`chip ${pass.changed ? "" : "idle"}`} href={href(`${program.id}/pass/${place}`)} title={`${counted(pass.steps, "rewrite")}, ${milliseconds(pass.ms)}`}>
              {pass.name} {pass.steps > 0 && <span class="figure">{count(pass.steps)}</span>}
            </a>
          </li>
        ))}
      </ol>
    </Part>
  );
}

function Hottest(props: { program: Program; hot: KernelEntry[]; kernel: KernelEntry | undefined; route: Route }) {
  const { program, hot, kernel, route } = props;
  const most = hot[0] ? weight(hot[0]) : 0;
  return (
    <Part title="Hottest kernels" sub={<a href={href(`${program.id}/kernels`)}>all {count(program.kernels.length)}</a>}>
      <table class="plain-table fixed">
        <thead>
          <tr>
            <th scope="col" class="wide">kernel</th>
            <th scope="col" class="wide">from</th>
            <th scope="col" class="number">runs</th>
            <th scope="col" class="number">work</th>
            <th scope="col" class="number">traffic</th>
            <th scope="col">time</th>
            <th scope="col"><span class="hidden">stages</span></th>
          </tr>
        </thead>
        <tbody>
          {hot.map((entry) => (
            <tr key={entry.id} class={entry === kernel ? "current" : ""}>
              <td class="cut"><a class="mono" href={href(entry.id)} title={entry.name}>{entry.name}</a></td>
              <td class="muted cut" title={entry.origin ?? ""}>{short(entry.origin)}</td>
              <td class="number">{count(entry.repeats ?? 1)}</td>
              <td class="number">{flops(entry.flops)}</td>
              <td class="number">{bytes(entry.bytes)}</td>
              <td class="time"><Bar part={weight(entry)} whole={most}>{microseconds(weight(entry) || null)}</Bar></td>
              <td><a href={withQuery(route, { kernel: entry.id })} aria-label={`Stages of ${entry.name}`}>show</a></td>
            </tr>
          ))}
        </tbody>
      </table>
    </Part>
  );
}

function Stages({ kernel }: { kernel: KernelEntry }) {
  const most = Math.max(1, ...kernel.stages.map((stage) => stage.steps));
  return (
    <Part title="Stages" sub={<>of <a class="mono" href={href(kernel.id)}>{kernel.name}</a></>}>
      <ol class="stages">
        {kernel.stages.map((stage) => (
          <li key={stage.n}>
            <a class={stage.changed ? "" : "idle"} href={href(`${kernel.id}/stage/${stage.n}`)} title={`${stage.name}: ${counted(stage.steps, "rewrite")}, ${milliseconds(stage.ms)}`}>
              <span class="ordinal">{stage.n}</span>
              <span class="name">{stage.name}</span>
              <Bar part={stage.steps} whole={most}>{stage.steps > 0 ? count(stage.steps) : ""}</Bar>
            </a>
          </li>
        ))}
        {kernel.levels.map((level) => (
          <li key={level}>
            <a href={href(`${kernel.id}/level/${level}`)}>
              <span class="ordinal">→</span>
              <span class="name">{levelName(level)}</span>
            </a>
          </li>
        ))}
      </ol>
    </Part>
  );
}
