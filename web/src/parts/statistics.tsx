/** How often each rule was tried and applied, and why it failed. */
import { useProgramId, useRecording } from "../data";
import type { Statistic } from "../documents";
import { count, milliseconds, percent, ruleName } from "../format";
import { href } from "../route";
import { Bar } from "./small";

export function Statistics({ statistics }: { statistics: Statistic[] }) {
  const { index } = useRecording();
  const program = useProgramId();
  if (statistics.length === 0) return <p class="notice">No rule was tried here.</p>;
  const most = Math.max(...statistics.map(({ applied }) => applied));
  const ordered = [...statistics].sort((a, b) => b.applied - a.applied || b.tried - a.tried);
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
          {ordered.map(({ rule, tried, applied, ms, failed }) => (
            <tr key={rule}>
              <td>
                <a href={href(`${program}/rules`, { rule })}>{ruleName(index.rules[rule]?.name ?? rule)}</a>
                {Object.entries(failed ?? {}).map(([reason, times]) => (
                  <div class="muted reason" key={reason}>×{count(times)} {reason}</div>
                ))}
              </td>
              <td title={percent(applied, tried)}><Bar part={applied} whole={most}>{count(applied)}</Bar></td>
              <td class="number">{count(tried)}</td>
              <td class="number">{milliseconds(ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
