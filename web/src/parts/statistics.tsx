/** How often each rule was tried and applied, and why it failed. */
import { Fragment } from "preact";
import { useMemo } from "preact/hooks";
import { type Loaded, useProgramId, useRecording } from "../data";
import type { FailedDocument, Statistic } from "../documents";
import { count, counted, milliseconds, percent, ruleName } from "../format";
import { href } from "../route";
import { Bar } from "./small";

interface Why {
  /** "" where all tries are counted. */
  looked: string;
  reasons: [reason: string, times: number, example: string | null][];
}

/** Why a rule failed: as it was counted, or as it was worked out now for some of its nodes. */
function whyOf(statistic: Statistic, failed: FailedDocument | null): Why {
  const found = failed?.rules.find(({ rule }) => rule === statistic.rule);
  if (found === undefined) return { looked: "", reasons: Object.entries(statistic.failed ?? {}).map(([reason, times]) => [reason, times, null]) };
  return { looked: counted(found.looked, "node"), reasons: found.failed.map(({ reason, count: times, example }) => [reason, times, example ?? null]) };
}

export function Statistics({ statistics, failed }: { statistics: Statistic[]; failed: Loaded<FailedDocument> }) {
  const { index } = useRecording();
  const program = useProgramId();
  const ordered = useMemo(() => [...statistics].sort((a, b) => b.applied - a.applied || b.tried - a.tried), [statistics]);
  if (statistics.length === 0) return <p class="notice">No rule was tried here.</p>;
  const most = Math.max(...statistics.map(({ applied }) => applied));
  return (
    <div class="scroll statistics" tabIndex={0} role="region" aria-label="Rules tried">
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">rule</th>
            <th scope="col">applied</th>
            <th scope="col" class="number">tried</th>
            <th scope="col" class="number">time</th>
          </tr>
        </thead>
        <tbody>
          {ordered.map((statistic) => {
            const { rule, tried, applied, ms } = statistic;
            const { looked, reasons } = whyOf(statistic, failed.value);
            return (
              <Fragment key={rule}>
                <tr>
                  <td>
                    <a href={href(`${program}/rules`, { rule })} title={index.rules[rule]?.equation ?? ""}>{ruleName(index.rules[rule]?.name ?? rule)}</a>
                  </td>
                  <td title={percent(applied, tried)}><Bar part={applied} whole={most}>{count(applied)}</Bar></td>
                  <td class="number">{count(tried)}</td>
                  <td class="number">{milliseconds(ms)}</td>
                </tr>
                {reasons.length > 0 && (
                  <tr class="reasons">
                    <td colSpan={4}>
                      {looked !== "" && <div class="muted">why not, at {looked}:</div>}
                      {reasons.map(([reason, times, example]) => (
                        <div class="muted reason" key={reason} title={example ?? undefined}>×{count(times)} {reason}</div>
                      ))}
                    </td>
                  </tr>
                )}
              </Fragment>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
