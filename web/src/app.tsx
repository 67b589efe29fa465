/** The frame: bar, navigation, and the view that the address names. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { kernelOf, useRecording } from "./data";
import type { Index, Program } from "./documents";
import { counted } from "./format";
import { useKeys } from "./keys";
import { Boundary } from "./parts/boundary";
import { Help } from "./parts/help";
import { SearchBox } from "./parts/search_box";
import { Side, places } from "./parts/side";
import { Empty } from "./parts/small";
import { go, href, type Route, useRoute } from "./route";
import { applyTheme, storedTheme, type Theme } from "./theme";
import { BeamView } from "./views/beam";
import { CompareView } from "./views/compare";
import { DataflowView } from "./views/dataflow";
import { FusionView } from "./views/fusion";
import { JourneyView } from "./views/journey";
import { KernelView } from "./views/kernel";
import { KernelsView } from "./views/kernels";
import { LevelView } from "./views/level";
import { MemoryView } from "./views/memory";
import { RulesView } from "./views/rules";
import { ScheduleView } from "./views/schedule";
import { SearchView } from "./views/search";
import { PassView, StageView } from "./views/stage";
import { TimelineView } from "./views/timeline";
import { WhyView } from "./views/why";

const THEMES: Theme[] = ["auto", "light", "dark"];

function kernelPart(program: Program, route: Route) {
  const [, , number = "", part, what = ""] = route.path;
  const kernel = kernelOf(program, `${program.id}/k/${number}`);
  if (kernel === undefined) return <Empty>There is no kernel {number} in this recording.</Empty>;
  const props = { program, kernel, route };
  switch (part) {
    case "stage":
      return <StageView {...props} n={Number(what)} />;
    case "level":
      return <LevelView {...props} level={what} />;
    case "why":
      return <WhyView {...props} />;
    case "schedule":
      return <ScheduleView key={kernel.id} {...props} />;
    case "beam":
      return <BeamView {...props} />;
    default:
      return <KernelView {...props} />;
  }
}

function View({ route, program }: { route: Route; program: Program | undefined }) {
  const [first, part, what = ""] = route.path;
  if (first === "search") return <SearchView route={route} />;
  if (first === "compare") return <CompareView route={route} />;
  if (program === undefined) return <Empty>This recording holds no program: nothing was compiled while it ran.</Empty>;
  // A link into another recording shows nothing of this one.
  if (/^[pr]\d+$/.test(first ?? "") && first !== program.id) return <Empty>{`This recording has no ${first!.startsWith("r") ? "run" : "program"} ${first}.`}</Empty>;
  switch (part) {
    case "pass":
      return <PassView program={program} route={route} number={Number(what)} />;
    case "k":
      return kernelPart(program, route);
    case "kernels":
      return <KernelsView program={program} route={route} />;
    case "dataflow":
      return <DataflowView program={program} route={route} />;
    case "rules":
      return <RulesView program={program} route={route} />;
    case "fusion":
      return <FusionView program={program} route={route} />;
    case "memory":
      return <MemoryView program={program} route={route} />;
    case "timeline":
      return <TimelineView program={program} route={route} />;
    default:
      return <JourneyView program={program} route={route} />;
  }
}

/** `r0/timeline` names a run; its program is where it is shown. */
function resolved(route: Route, { programs, runs = [] }: Index): Route {
  // A rule belongs to no program; it is shown in the first.
  if (route.path[0] === "rule") return { path: [programs[0]?.id ?? "p0", "rules"], query: { ...route.query, rule: route.path[1] ?? "" } };
  const run = runs.find(({ id }) => id === route.path[0]);
  if (run === undefined) return route;
  return { path: [run.program, ...route.path.slice(1)], query: { run: run.id, ...route.query } };
}

export function App() {
  const { index } = useRecording();
  const address = useRoute();
  const route = useMemo(() => resolved(address, index), [address, index]);
  const [help, setHelp] = useState(false);
  const [theme, setTheme] = useState<Theme>(storedTheme);
  const search = useRef<HTMLInputElement>(null);
  const main = useRef<HTMLElement>(null);
  const last = useRef<Program | undefined>(index.programs[0]);
  const named = index.programs.find(({ id }) => id === route.path[0]);
  if (named !== undefined) last.current = named;
  const program = last.current;
  const change = () => {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!;
    setTheme(next);
    applyTheme(next);
  };
  const top = program === undefined ? [] : places(program, index);
  useKeys([
    { keys: ["/"], does: "search over everything", run: () => search.current?.focus() },
    { keys: ["?"], does: "show or hide these keys", run: () => setHelp((shown) => !shown) },
    { keys: ["t"], does: "light, dark, or as the system says", run: change },
    ...top.slice(0, 9).map(([path, text], place) => ({ keys: [`${place + 1}`], does: text, run: () => go(href(path)) })),
  ]);
  // A new view is read from its top, by screen readers too; steps within a view keep the place.
  useEffect(() => main.current?.scrollTo(0, 0), [route.path.join("/")]);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the view</a>
      <header class="top">
        <a class="brand" href={href(program?.id ?? "")}>
          planish <span>viz</span>
        </a>
        {index.programs.length > 1 ? (
          <select
            aria-label="Program"
            value={program?.id}
            onChange={(event) => go(href(event.currentTarget.value))}
          >
            {index.programs.map(({ id, name, kernels }) => (
              <option key={id} value={id}>{`${name} (${counted(kernels.length, "kernel")})`}</option>
            ))}
          </select>
        ) : (
          <span class="title" title={index.command}>{program?.name ?? index.title}</span>
        )}
        <SearchBox input={search} />
        {index.live && <a href={`./api/export${location.search}`} download="report.html" title="One file that holds all of this">Export</a>}
        <span class={`badge ${index.live ? "live" : ""}`}>{index.live ? "live" : "export"}</span>
        <button type="button" class="plain" onClick={change} aria-label={`Theme: ${theme}`} title={`Theme: ${theme}`}>
          {theme === "dark" ? "☾" : theme === "light" ? "☀" : "◐"}
        </button>
        <button type="button" class="plain" onClick={() => setHelp(true)} aria-label="Keys" title="Keys (?)">?</button>
      </header>
      {program === undefined ? <nav class="side" aria-label="Views" /> : <Side program={program} route={route} places={top} />}
      <main ref={main} id="main" tabIndex={-1}>
        <Boundary place={location.hash}>
          <View route={route} program={program} />
        </Boundary>
      </main>
      {help && <Help close={() => setHelp(false)} />}
    </div>
  );
}
