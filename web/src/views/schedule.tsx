/** The schedule as a loop nest one can edit: change an action, see whether it is legal, the code, and what it costs. */
import { useEffect, useState } from "preact/hooks";
import { useDocument, useRecording } from "../data";
import type { KernelEntry, LevelDocument, Program, ScheduleAnswer, WhyDocument } from "../documents";
import { microseconds, ratio } from "../format";
import { Code, DiffView } from "../parts/code";
import { Nest } from "../parts/nest";
import { levelName } from "../parts/side";
import { Choice, Facts, Filter, Header, matches, Waiting } from "../parts/small";
import { href, type Route } from "../route";
import { useKernelKeys } from "./kernel";

/** One action per line reads better; the recorder takes them joined by semicolons. */
export const toLines = (schedule: string): string => schedule.split(";").map((action) => action.trim()).filter(Boolean).join("\n");
export const toSchedule = (text: string): string => text.split(/[;\n]/).map((action) => action.trim()).filter(Boolean).join("; ");

const words = (action: string): string[] => action.split(/[^\w.]+/);

interface ScheduleProps {
  program: Program;
  kernel: KernelEntry;
  route: Route;
}

export function ScheduleView({ program, kernel, route }: ScheduleProps) {
  useKernelKeys({ program, kernel }, "/schedule");
  const { source, index } = useRecording();
  const recorded = kernel.schedule ?? "";
  const [text, setText] = useState(() => toLines(route.query["text"] ?? recorded));
  const [answer, setAnswer] = useState<ScheduleAnswer | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [axis, setAxis] = useState<string | null>(null);
  const [filter, setFilter] = useState("");
  const why = useDocument<WhyDocument>(`${kernel.id}/why.json`);
  const nest = why.value?.nest ?? null;
  useEffect(() => {
    if (route.query["text"] !== undefined) setText(toLines(route.query["text"]));
  }, [route.query["text"]]);

  const send = async (measure: boolean) => {
    setBusy(true);
    setProblem(null);
    try {
      const told = await source.schedule(kernel.id, toSchedule(text), measure);
      setAnswer(told);
    } catch (failure) {
      setAnswer(null);
      setProblem(failure instanceof Error ? failure.message : String(failure));
    } finally {
      setBusy(false);
    }
  };
  const keydown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void send(event.shiftKey);
    }
  };
  const actions = (nest?.legal_actions ?? []).filter((action) => (axis === null || words(action).includes(axis)) && (filter === "" || matches(filter, action)));
  const add = (action: string) => setText((old) => (old === "" ? action : `${old}\n${action}`));
  return (
    <section class="view">
      <Header title="Schedule" sub={<a class="mono" href={href(kernel.id)}>{kernel.name}</a>}>
        {text !== toLines(recorded) && <button type="button" onClick={() => { setText(toLines(recorded)); setAnswer(null); }}>Recorded schedule</button>}
      </Header>
      <div class="scheduler">
        <div class="editor">
          <h2>Loop nest <span class="muted">{axis === null ? "choose a loop to see its actions" : `actions on ${axis}`}</span></h2>
          <div class="nest-box">
            {nest === null ? <p class="muted">{why.problem ?? "No loop nest recorded."}</p> : <Nest loops={nest.loops} chosen={axis} onChoose={(chosen) => setAxis(chosen === axis ? null : chosen)} />}
          </div>
          <label for="schedule-text"><h2>Actions <span class="muted">one per line</span></h2></label>
          <textarea
            id="schedule-text"
            class="mono"
            spellcheck={false}
            rows={Math.min(14, Math.max(5, text.split("\n").length + 1))}
            value={text}
            readOnly={!index.live}
            aria-invalid={answer !== null && !answer.legal}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={keydown}
          />
          {index.live ? (
            <div class="buttons">
              <button type="button" class="main" disabled={busy} onClick={() => void send(false)}>Compile</button>
              <button type="button" disabled={busy} onClick={() => void send(true)}>Compile and measure</button>
              <span class="muted">{busy ? "Compiling…" : "Ctrl+Enter"}</span>
            </div>
          ) : (
            <p class="notice">An exported page cannot compile. <code>planish viz</code> on the recording can.</p>
          )}
          {nest?.legal_actions && nest.legal_actions.length > 0 && (
            <>
              <h2>Legal next actions <span class="muted">on the recorded nest</span></h2>
              <Filter value={filter} onInput={setFilter} label="Filter actions" />
              <ul class="chips actions">
                {actions.slice(0, 60).map((action) => (
                  <li key={action}><button type="button" class="chip mono" disabled={!index.live} onClick={() => add(action)}>{action}</button></li>
                ))}
              </ul>
              {actions.length > 60 && <p class="muted">and {actions.length - 60} more</p>}
            </>
          )}
        </div>
        <div class="outcome" aria-live="polite">
          {problem !== null && <p class="notice bad" role="alert">{problem}</p>}
          {answer === null ? <Recorded kernel={kernel} /> : <Outcome kernel={kernel} answer={answer} />}
        </div>
      </div>
    </section>
  );
}

const SHOWN = ["schedule", "llir", "llvm", "c", "cuda", "asm", "sass"];

function Recorded({ kernel }: { kernel: KernelEntry }) {
  const levels = SHOWN.filter((level) => kernel.levels.includes(level));
  const [level, setLevel] = useState(levels[0] ?? "");
  const code = useDocument<LevelDocument>(level === "" ? null : `${kernel.id}/level/${level}.json`);
  if (level === "") return <p class="notice">No code was recorded for this kernel.</p>;
  return (
    <>
      <Facts items={[["recorded estimate", microseconds(kernel.estimate_us)], ["recorded measurement", microseconds(kernel.measured_us)]]} />
      <Choice label="Level" options={levels.map((name) => [name, levelName(name)] as const)} value={level} onChange={setLevel} />
      {code.value === null ? <Waiting loaded={code} /> : <Code text={code.value.text} language={code.value.language ?? level} label={`${levelName(level)} as recorded`} />}
    </>
  );
}

function Outcome({ kernel, answer }: { kernel: KernelEntry; answer: ScheduleAnswer }) {
  const levels = Object.keys(answer.levels ?? {});
  const [wanted, setLevel] = useState(levels[0] ?? "");
  const level = levels.includes(wanted) ? wanted : levels[0] ?? "";
  const recorded = useDocument<LevelDocument>(level !== "" && kernel.levels.includes(level) ? `${kernel.id}/level/${level}.json` : null);
  if (!answer.legal) {
    const { step, reason } = answer.refused ?? { step: "?", reason: "the schedule was refused" };
    return (
      <div class="verdict bad" role="alert">
        <b>Refused</b> at <span class="mono">{typeof step === "number" ? `action ${step + 1}` : step}</span>
        <p>{reason}</p>
      </div>
    );
  }
  const given = answer.levels?.[level];
  const text = typeof given === "string" ? given : given?.text ?? "";
  const speed = (before: number | null | undefined, after: number | null | undefined) => (before && after ? ratio(before / after) : "–");
  return (
    <>
      <div class="verdict good"><b>Legal</b> <span class="mono">{answer.schedule || "no action"}</span>{answer.note && <p>{answer.note}</p>}</div>
      <Facts
        items={[
          ["estimate", microseconds(answer.estimate_us)],
          ["recorded estimate", microseconds(kernel.estimate_us)],
          ["faster by the model", speed(kernel.estimate_us, answer.estimate_us)],
          ["measured", microseconds(answer.measured_us)],
          ["recorded measurement", microseconds(kernel.measured_us)],
          ["faster in fact", speed(kernel.measured_us, answer.measured_us)],
        ]}
      />
      <Choice label="Level" options={levels.map((name) => [name, levelName(name)] as const)} value={level} onChange={setLevel} />
      {recorded.value !== null ? (
        <DiffView before={recorded.value.text} after={text} mode="side" language={level} label={`${levelName(level)}, recorded and edited`} sides={["recorded", "edited"]} />
      ) : (
        <Code text={text} language={level} label={levelName(level)} />
      )}
    </>
  );
}
