/** Single rewrites: a list that fetches pages as they come into sight, and one of them in full. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useProgramId, useRecording } from "../data";
import { type Step, type StepsDocument, STEPS_PER_PAGE } from "../documents";
import { count, microseconds, ruleName } from "../format";
import { href } from "../route";
import { Words } from "./code";
import { VirtualList } from "./virtual";

export interface Steps {
  /** The step, once its page is there; asking fetches it. */
  step: (place: number) => Step | null;
  want: (first: number, last: number) => void;
  /** How many alike this one stands for, or 0 where it is one of those. */
  alike: (place: number) => number;
  /** The first step of another rule, onwards and back. */
  beyond: (place: number) => number;
  ahead: (place: number) => number;
  problem: string | null;
}

/** The pages of steps under `base`, each fetched once, when one of its rows is first seen. */
export function useSteps(base: string, total: number): Steps {
  const { source } = useRecording();
  const [, redraw] = useState(0);
  const held = useRef({ base, pages: new Map<number, StepsDocument | null>(), folds: new Map<number, number>(), problem: null as string | null });
  if (held.current.base !== base) held.current = { base, pages: new Map(), folds: new Map(), problem: null };
  const mine = held.current;
  const fetchPage = (page: number) => {
    if (mine.pages.has(page)) return;
    mine.pages.set(page, null);
    source.get<StepsDocument>(`${base}/steps/${page}.json`).then(
      (document) => {
        mine.pages.set(page, document);
        for (const { first, count: many } of document.folded ?? []) mine.folds.set(first, many);
        redraw((old) => old + 1);
      },
      (problem: unknown) => {
        mine.problem = problem instanceof Error ? problem.message : String(problem);
        redraw((old) => old + 1);
      },
    );
  };
  const want = (first: number, last: number) => {
    for (let page = Math.floor(first / STEPS_PER_PAGE); page <= Math.floor(last / STEPS_PER_PAGE); page++) fetchPage(page);
  };
  const step = (place: number): Step | null => mine.pages.get(Math.floor(place / STEPS_PER_PAGE))?.steps[place % STEPS_PER_PAGE] ?? null;
  useEffect(() => {
    if (total > 0) want(0, 0);
  }, [base, total]);
  const alike = (place: number): number => {
    for (const [first, many] of mine.folds) if (place > first && place < first + many) return 0;
    return mine.folds.get(place) ?? 1;
  };
  return {
    step,
    want,
    alike,
    beyond: (place) => {
      let to = Math.min(total - 1, place + Math.max(1, alike(place)));
      while (to < total - 1 && alike(to) === 0) to++;
      return to;
    },
    ahead: (place) => {
      let to = Math.max(0, place - 1);
      while (to > 0 && alike(to) === 0) to--;
      return to;
    },
    problem: mine.problem,
  };
}

interface StepsListProps {
  list: Steps;
  total: number;
  current: number | null;
  onChoose: (place: number) => void;
}

export function StepsList({ list, total, current, onChoose }: StepsListProps) {
  const { index } = useRecording();
  useEffect(() => {
    if (current !== null) list.want(current, current);
  }, [current]);
  if (list.problem !== null) return <p class="notice bad" role="alert">{list.problem}</p>;
  return (
    <VirtualList
      className="steps"
      count={total}
      rowHeight={26}
      label="Single rewrites"
      role="listbox"
      current={current}
      onVisible={list.want}
      row={(place) => {
        const step = list.step(place);
        const alike = list.alike(place);
        return (
          <button
            type="button"
            role="option"
            tabIndex={-1}
            aria-selected={place === current}
            class={`entry ${place === current ? "on" : ""} ${alike === 0 ? "idle" : ""}`}
            onClick={() => onChoose(place)}
          >
            <span class="ordinal">{count(place + 1)}</span>
            <span class={`name ${(step?.[8] ?? 0) > 0 ? "nested" : ""}`}>{step === null ? "…" : ruleName(index.rules[step[0]]?.name ?? step[0])}</span>
            {alike > 1 && <span class="badge">×{count(alike)}</span>}
            <span class="figure">{step?.[7] === null || step?.[7] === undefined ? "" : microseconds(step[7])}</span>
          </button>
        );
      }}
    />
  );
}

/** One rewrite: the rule as an equation, and its expression before and after, word by word. */
export function StepDetail({ step }: { step: Step | null }) {
  const { index } = useRecording();
  const program = useProgramId();
  if (step === null) return <div class="step-detail"><p class="notice quiet">Loading…</p></div>;
  const [ruleId, , , before, after, source, , time, depth = 0] = step;
  const rule = index.rules[ruleId];
  return (
    <div class="step-detail">
      <h2>
        <a href={href(`${program}/rules`, { rule: ruleId })}>{ruleName(rule?.name ?? ruleId)}</a>
      </h2>
      {rule?.equation && <pre class="equation">{rule.equation}</pre>}
      <dl class="lines">
        {rule?.file && (<><dt>rule</dt><dd class="mono">{rule.file}{rule.line ? `:${rule.line}` : ""}</dd></>)}
        {source !== null && source !== undefined && (<><dt>your line</dt><dd class="mono">{String(source)}</dd></>)}
        <dt>time</dt><dd>{microseconds(time)}</dd>
        {depth > 0 && (<><dt>inside</dt><dd>a rule that rewrites what it finds, {depth} deep</dd></>)}
      </dl>
      <h3>before</h3>
      <pre class="expression before"><Words before={before} after={after} side="before" /></pre>
      <h3>after</h3>
      <pre class="expression after"><Words before={before} after={after} side="after" /></pre>
    </div>
  );
}
