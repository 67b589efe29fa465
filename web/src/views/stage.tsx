/** A pass over the program, or a stage of a kernel: what changed, and every single rewrite that changed it. */
import { useMemo } from "preact/hooks";
import { useDocument, useRecording } from "../data";
import type { FailedDocument, Graph, KernelEntry, Program, StageDocument, StepDocument } from "../documents";
import { count, microseconds, milliseconds, ruleName } from "../format";
import { useKeys } from "../keys";
import { Code, type DiffMode, DiffView } from "../parts/code";
import { type DrawnGraph, GraphView } from "../parts/graph";
import { NodeRules } from "../parts/node_rules";
import { Statistics } from "../parts/statistics";
import { StepDetail, StepsList, useSteps } from "../parts/steps";
import { Choice, Header, Waiting } from "../parts/small";
import { go, href, type Route, withQuery } from "../route";
import { hueOf } from "./dataflow";
import { useKernelKeys } from "./kernel";

type Shape = "diff" | "before" | "after" | "graph";
const SHAPES = [
  ["diff", "Diff"],
  ["before", "Before"],
  ["after", "After"],
  ["graph", "Graph"],
] as const;

interface Neighbour {
  path: string;
  name: string;
}

interface RewritesProps {
  route: Route;
  title: string;
  sub: preact.ComponentChildren;
  /** Where the documents lie, without `.json`. */
  base: string;
  /** The document before, for its graph and for a text that was not stored twice. */
  baseBefore: string | null;
  steps: number;
  before: Neighbour | null;
  next: Neighbour | null;
  /** What the pass raised. */
  error?: string | undefined;
}

export function PassView({ program, route, number }: { program: Program; route: Route; number: number }) {
  const pass = program.passes[number];
  if (pass === undefined) return <p class="notice">There is no pass {number} in this recording.</p>;
  const neighbour = (place: number): Neighbour | null => {
    const other = program.passes[place];
    return other === undefined ? null : { path: `${program.id}/pass/${place}`, name: other.name };
  };
  return (
    <Rewrites
      key={program.id}
      route={route}
      title={pass.name}
      sub={<>pass {number} of {program.passes.length - 1}{pass.function ? <> · {pass.function}</> : null} · {milliseconds(pass.ms)}</>}
      base={pass.id}
      baseBefore={program.passes[number - 1]?.id ?? null}
      steps={pass.steps}
      error={pass.error}
      before={neighbour(number - 1)}
      next={neighbour(number + 1)}
    />
  );
}

export function StageView({ program, kernel, route, n }: { program: Program; kernel: KernelEntry; route: Route; n: number }) {
  useKernelKeys({ program, kernel }, `/stage/${n}`);
  const place = kernel.stages.findIndex((stage) => stage.n === n);
  const stage = kernel.stages[place];
  if (stage === undefined) return <p class="notice">Kernel {kernel.name} has no stage {n}.</p>;
  const neighbour = (at: number): Neighbour | null => {
    const other = kernel.stages[at];
    return other === undefined ? null : { path: `${kernel.id}/stage/${other.n}`, name: other.name };
  };
  const earlier = kernel.stages[place - 1];
  return (
    <Rewrites
      key={kernel.id}
      route={route}
      title={stage.name}
      sub={<>stage {n} of <a class="mono" href={href(kernel.id)}>{kernel.name}</a> · {milliseconds(stage.ms)}</>}
      base={`${kernel.id}/stage/${n}`}
      baseBefore={earlier === undefined ? null : `${kernel.id}/stage/${earlier.n}`}
      steps={stage.steps}
      before={neighbour(place - 1)}
      next={neighbour(place + 1)}
    />
  );
}

function drawn(graph: Graph): DrawnGraph {
  return {
    nodes: graph.nodes.map((node) => ({
      id: String(node.id),
      title: node.label?.includes(node.op) ? node.label : [node.op, node.label].filter(Boolean).join(" "),
      detail: node.type ?? "",
      more: [node.loc, node.region, node.id].filter((text) => text !== null && text !== undefined && text !== "").join("  "),
      hue: hueOf(node.op),
    })),
    edges: graph.edges.map(([from, to]) => [String(from), String(to)]),
  };
}

function Rewrites(props: RewritesProps) {
  const { route, title, sub, base, baseBefore, steps, before, next, error } = props;
  const { index } = useRecording();
  const shape: Shape = SHAPES.find(([value]) => value === route.query["show"])?.[0] ?? "diff";
  const mode: DiffMode = route.query["mode"] === "inline" ? "inline" : "side";
  const panel = route.query["panel"] === "rules" ? "rules" : "steps";
  const asked = Math.floor(Number(route.query["step"] ?? NaN));
  const step = asked >= 0 && asked < steps ? asked : null;
  const document = useDocument<StageDocument>(`${base}.json`);
  // The earlier document has the graph that a step's nodes belong to.
  const wantsEarlier = baseBefore !== null && shape === "graph";
  const earlier = useDocument<StageDocument>(wantsEarlier ? `${baseBefore}.json` : null);
  const whole = useDocument<StepDocument>(step === null ? null : `${base}/step/${step}.json`);
  const ofKernel = base.includes("/stage/");
  const failed = useDocument<FailedDocument>(panel === "rules" && ofKernel ? `${base}/failed.json` : null);
  const list = useSteps(base, steps);
  const current = step === null ? null : list.step(step);

  const change = (changes: Record<string, string | number | null>) => go(withQuery(route, changes), true);
  const toStep = (place: number | null) => change({ step: place === null ? null : Math.min(steps - 1, Math.max(0, place)) });
  const kept = { show: route.query["show"], mode: route.query["mode"], panel: route.query["panel"] };
  const to = (neighbour: Neighbour | null) => neighbour !== null && go(href(neighbour.path, kept));
  const turn = () => change({ show: SHAPES[(SHAPES.findIndex(([value]) => value === shape) + 1) % SHAPES.length]![0] });
  useKeys([
    { keys: ["j", "ArrowDown"], does: "next rewrite", run: () => steps > 0 && toStep(step === null ? 0 : step + 1) },
    { keys: ["k", "ArrowUp"], does: "rewrite before", run: () => step !== null && toStep(step - 1) },
    { keys: ["J"], does: "next rewrite by another rule", run: () => steps > 0 && toStep(step === null ? 0 : list.beyond(step)) },
    { keys: ["K"], does: "rewrite before, by another rule", run: () => step !== null && toStep(list.ahead(step)) },
    { keys: ["Home"], does: "first rewrite", run: () => steps > 0 && toStep(0) },
    { keys: ["End"], does: "last rewrite", run: () => steps > 0 && toStep(steps - 1) },
    { keys: ["n", "ArrowRight"], does: "next pass or stage", run: () => to(next) },
    { keys: ["p", "ArrowLeft"], does: "pass or stage before", run: () => to(before) },
    { keys: ["Escape"], does: "from the rewrite back to the whole", run: () => toStep(null) },
    { keys: ["v"], does: "diff, before, after, graph", run: turn },
    { keys: ["s"], does: "side by side or inline", run: () => change({ mode: mode === "side" ? "inline" : null }) },
  ]);

  const side = route.query["side"] === "before" ? "before" : "after";
  // Before a rewrite lies what the one before it left.
  const previous = useDocument<StepDocument>(shape === "graph" && side === "before" && step !== null && step > 0 ? `${base}/step/${step - 1}.json` : null);
  const marked = useMemo(() => {
    if (current === null) return undefined;
    return new Set(((side === "before" ? current[6] : current[9]) ?? [current[1] ?? ""]).map(String));
  }, [current, side]);
  const early = side === "before" && earlier.value !== null;
  const ofStep = side === "before" ? (step === 0 ? earlier : previous).value?.graph : whole.value?.graph;
  const graph = step === null ? (early ? earlier : document).value?.graph : ofStep;
  const picture = useMemo(() => (graph ? drawn(graph) : null), [graph]);
  const only = useMemo(() => {
    const other = early ? document.value?.graph : earlier.value?.graph;
    if (step !== null || !graph || !other) return undefined;
    const known = new Set(other.nodes.map(({ id }) => String(id)));
    const ids = new Set(graph.nodes.map(({ id }) => String(id)).filter((id) => !known.has(id)));
    return { ids, tone: early ? ("bad" as const) : ("good" as const) };
  }, [graph, early, step, document.value, earlier.value]);

  const loaded = step === null ? document : whole;
  const texts =
    step === null
      ? { before: document.value?.before ?? document.value?.after ?? "", after: document.value?.after ?? "" }
      : { before: whole.value?.before ?? current?.[3] ?? "", after: whole.value?.after ?? current?.[4] ?? "" };
  // A step whose whole text is not stored still shows its own expression.
  const ready = loaded.value !== null || (step !== null && current !== null && whole.problem !== null);
  const label = step === null ? title : `${title}, rewrite ${step + 1}`;
  return (
    <section class="view">
      <Header title={title} sub={sub}>
        <Choice label="What to show" options={[...SHAPES]} value={shape} onChange={(value) => change({ show: value === "diff" ? null : value })} />
        {shape === "diff" && (
          <Choice
            label="How to show it"
            options={[["side", "Side by side"], ["inline", "Inline"]]}
            value={mode}
            onChange={(value) => change({ mode: value === "side" ? null : value })}
          />
        )}
        {shape === "graph" && (baseBefore !== null || step !== null) && (
          <Choice
            label="Which graph"
            options={[["before", "Before"], ["after", "After"]]}
            value={side}
            onChange={(value) => change({ side: value === "after" ? null : value })}
          />
        )}
        <span class="pager">
          <button type="button" disabled={before === null} onClick={() => to(before)} title={before?.name} aria-label="Before">←</button>
          <button type="button" disabled={next === null} onClick={() => to(next)} title={next?.name} aria-label="Next">→</button>
        </span>
      </Header>
      {error && <pre class="notice bad" role="alert">{error}</pre>}
      {document.value?.note && <p class="note">{document.value.note}</p>}
      <div class="rewrites">
        <div class="pane">
          {step !== null && whole.value?.whole === false && <p class="note">The texts are the expression that this rewrite was about.</p>}
          {step !== null && (
            <p class="step-bar" role="status">
              Rewrite <b>{count(step + 1)}</b> of {count(steps)}
              {current !== null && <> · <b>{ruleName(index.rules[current[0]]?.name ?? current[0])}</b> · {microseconds(current[7])}</>}
              <button type="button" class="small" onClick={() => toStep(null)}>Whole {baseBefore?.includes("/pass/") || base.includes("/pass/") ? "pass" : "stage"}</button>
            </p>
          )}
          {shape === "graph" ? (
            picture === null ? (
              document.value === null ? <Waiting loaded={document} /> : <p class="notice">{step === null || whole.value !== null ? "No graph was recorded here; the text has it all." : whole.problem ?? "Loading…"}</p>
            ) : (
              <GraphView graph={picture} label={label} marked={marked} only={only} leftOut={graph?.left_out ?? 0} info={ofKernel ? (id) => <NodeRules path={`${base}/node/${id}.json`} /> : undefined} />
            )
          ) : !ready ? (
            <Waiting loaded={loaded} />
          ) : shape === "diff" ? (
            <DiffView before={texts.before} after={texts.after} mode={mode} label={label} language={document.value?.language ?? "uop"} />
          ) : (
            <Code text={texts[shape]} label={label} language={document.value?.language} />
          )}
        </div>
        <aside class="panel" aria-label="Rewrites">
          <Choice
            label="Panel"
            options={[["steps", `Rewrites ${count(steps)}`], ["rules", "Rules tried"]]}
            value={panel}
            onChange={(value) => change({ panel: value === "steps" ? null : value })}
          />
          {panel === "rules" ? (
            <Statistics statistics={document.value?.statistics ?? []} failed={failed} />
          ) : steps === 0 ? (
            <p class="notice">No rule applied here.</p>
          ) : (
            <>
              <StepsList list={list} total={steps} current={step} onChoose={toStep} />
              {step !== null && <StepDetail step={current} />}
            </>
          )}
        </aside>
      </div>
    </section>
  );
}
