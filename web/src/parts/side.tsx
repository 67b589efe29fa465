/** The navigation: the program's views, and inside a pass or a kernel its neighbours. */
import { kernelOf, stepsOf } from "../data";
import type { Index, KernelEntry, Program } from "../documents";
import { count, milliseconds } from "../format";
import { href, type Route } from "../route";
import { VirtualList } from "./virtual";

export type Place = [path: string, text: string, figure?: string];

/** The views of a program that this recording can fill, in the order of the keys 1 … 9. */
export function places(program: Program, index: Index): Place[] {
  const { id, has = {}, kernels, passes } = program;
  const all: (Place | false)[] = [
    [id, "Journey"],
    [`${id}/kernels`, "Kernels", count(kernels.length)],
    [`${id}/dataflow`, "Dataflow"],
    [`${id}/pass/${Math.max(0, passes.length - 1)}`, "Passes", count(passes.length)],
    [`${id}/rules`, "Rules", count(Object.keys(index.rules).length)],
    has.fusion === true && [`${id}/fusion`, "Fusion"],
    has.memory === true && [`${id}/memory`, "Memory plan"],
    has.timeline === true && [`${id}/timeline`, "Timeline"],
    index.compare !== undefined && index.compare !== null && ["compare", "Compare"],
  ];
  return all.filter((place): place is Place => place !== false);
}

interface SideProps {
  program: Program;
  route: Route;
  places: Place[];
}

export function Side({ program, route, places: all }: SideProps) {
  const here = route.path.join("/");
  const [, part, number = ""] = route.path;
  const kernel = part === "k" ? kernelOf(program, `${program.id}/k/${number}`) : undefined;
  const on = (path: string) =>
    here === path || (path.includes("/pass/") ? part === "pass" : path.endsWith("/kernels") && part === "k");
  return (
    <nav class="side" aria-label="Views">
      <ul class="places">
        {all.map(([path, text, figure], place) => (
          <li key={path}>
            <a href={href(path)} class={on(path) ? "on" : ""} aria-current={here === path ? "page" : undefined}>
              <span>{text}</span>
              {figure !== undefined && <span class="figure">{figure}</span>}
              <kbd aria-hidden="true">{place + 1}</kbd>
            </a>
          </li>
        ))}
      </ul>
      {part === "pass" && <Passes program={program} current={Number(number)} />}
      {kernel !== undefined && <KernelSide program={program} kernel={kernel} here={here} />}
    </nav>
  );
}

function Passes({ program, current }: { program: Program; current: number }) {
  return (
    <>
      <h2>Passes</h2>
      <VirtualList
        className="entries"
        count={program.passes.length}
        rowHeight={26}
        label="Passes"
        current={current}
        row={(place) => {
          const pass = program.passes[place]!;
          return <Entry path={`${program.id}/pass/${place}`} name={pass.name} on={place === current} steps={pass.steps} failed={Boolean(pass.error)} changed={pass.changed} ms={pass.ms} number={place} />;
        }}
      />
    </>
  );
}

interface EntryProps {
  path: string;
  name: string;
  on: boolean;
  steps: number;
  changed: boolean;
  ms: number;
  number: number;
  failed?: boolean;
}

function Entry({ path, name, on, steps, changed, ms, number, failed = false }: EntryProps) {
  return (
    <a
      href={href(path)}
      class={`entry ${on ? "on" : ""} ${changed ? "" : "idle"}`}
      aria-current={on ? "page" : undefined}
      title={`${name}: ${count(steps)} steps, ${milliseconds(ms)}${changed ? "" : ", nothing changed"}`}
    >
      <span class="ordinal">{number}</span>
      <span class={failed ? "name minus" : "name"}>{name}</span>
      <span class="figure">{failed ? "failed" : steps > 0 ? count(steps) : changed ? "·" : ""}</span>
    </a>
  );
}

const PARTS = [
  ["", "Overview"],
  ["/why", "Why"],
  ["/schedule", "Schedule"],
  ["/beam", "Beam search"],
] as const;

function KernelSide({ program, kernel, here }: { program: Program; kernel: KernelEntry; here: string }) {
  const beam = program.has?.beam === true;
  return (
    <>
      <h2 title={kernel.name}>{kernel.name}</h2>
      <ul class="places small-places">
        {PARTS.filter(([path]) => path !== "/beam" || beam).map(([path, text]) => (
          <li key={path}>
            <a href={href(kernel.id + path)} class={here === kernel.id + path ? "on" : ""} aria-current={here === kernel.id + path ? "page" : undefined}>
              {text}
            </a>
          </li>
        ))}
        {kernel.levels.map((level) => {
          const path = `${kernel.id}/level/${level}`;
          return (
            <li key={level}>
              <a href={href(path)} class={here === path ? "on" : ""} aria-current={here === path ? "page" : undefined}>{levelName(level)}</a>
            </li>
          );
        })}
      </ul>
      <h2>
        Stages <span class="figure">{count(stepsOf(kernel))} steps</span>
      </h2>
      <div class="entries" role="list" aria-label="Stages">
        {kernel.stages.map((stage) => (
          <div role="listitem" key={stage.n}>
            <Entry
              path={`${kernel.id}/stage/${stage.n}`}
              name={stage.name}
              on={here === `${kernel.id}/stage/${stage.n}`}
              steps={stage.steps}
              changed={stage.changed}
              ms={stage.ms}
              number={stage.n}
            />
          </div>
        ))}
      </div>
    </>
  );
}

const LEVELS: Record<string, string> = { llir: "LLIR", llvm: "LLVM IR", asm: "Assembly", c: "C", cuda: "CUDA C++", ptx: "PTX", sass: "SASS", schedule: "Actions", uop: "UOps" };
export const levelName = (level: string): string => LEVELS[level] ?? level;
