/** Why a kernel is as it is: each action taken or refused, each load wide or not, and what else was weighed. */
import { useDocument } from "../data";
import type { KernelEntry, Program, WhyDocument } from "../documents";
import { counted, microseconds } from "../format";
import { Bar, Header, Waiting } from "../parts/small";
import { href } from "../route";
import { useKernelKeys } from "./kernel";

export function WhyView({ program, kernel }: { program: Program; kernel: KernelEntry }) {
  useKernelKeys({ program, kernel }, "/why");
  const why = useDocument<WhyDocument>(`${kernel.id}/why.json`);
  if (why.value === null) return <Waiting loaded={why} />;
  const { schedule = [], loads = [], candidates = [], because = [], bound_by, note } = why.value;
  const slowest = Math.max(0, ...candidates.map((entry) => entry.measured_us ?? entry.estimate_us ?? 0));
  return (
    <section class="view scroll">
      <Header title="Why" sub={<a class="mono" href={href(kernel.id)}>{kernel.name}</a>} />
      {(because.length > 0 || bound_by || note) && (
        <section class="part">
          <h2>In short</h2>
          {bound_by && <p>{bound_by}</p>}
          {because.map((reason) => <p key={reason}>{reason}</p>)}
          {note && <p class="muted">{note}</p>}
        </section>
      )}
      <section class="part">
        <h2>Actions <span class="muted">{schedule.filter(({ taken }) => taken).length} of {schedule.length} taken</span></h2>
        {schedule.length === 0 ? <p class="muted">No action was weighed.</p> : (
          <table class="plain-table">
            <thead><tr><th scope="col">action</th><th scope="col">taken</th><th scope="col" class="number">estimate</th><th scope="col">because</th></tr></thead>
            <tbody>
              {schedule.map(({ action, taken, legal = true, reason, estimate_us, effect }, place) => (
                <tr key={place}>
                  <td class="mono">{action}</td>
                  <td>{taken ? <b class="plus">taken</b> : legal ? <span class="muted">not taken</span> : <b class="minus">refused</b>}</td>
                  <td class="number">{microseconds(estimate_us)}</td>
                  <td class="wrap">{reason}{effect && <div class="muted">{effect}</div>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
      <section class="part">
        <h2>Loads and stores <span class="muted">{loads.filter(({ wide }) => wide).length} of {loads.length} wide</span></h2>
        {loads.length === 0 ? <p class="muted">No access was recorded.</p> : (
          <table class="plain-table">
            <thead><tr><th scope="col">buffer</th><th scope="col">index</th><th scope="col" class="number">lanes</th><th scope="col">wide</th><th scope="col">because</th></tr></thead>
            <tbody>
              {loads.map(({ buffer, index, store, lanes, wide, reason }, place) => (
                <tr key={place}>
                  <td class="mono">{store ? "store " : ""}{buffer}</td>
                  <td class="mono wrap">{index}</td>
                  <td class="number">{lanes}</td>
                  <td>{wide ? <b class="plus">wide</b> : <b class="minus">narrow</b>}</td>
                  <td class="wrap">{reason}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
      {candidates.length > 0 && (
        <section class="part">
          <h2>Candidates <span class="muted">{counted(candidates.length, "schedule")} weighed</span></h2>
          <table class="plain-table">
            <thead><tr><th scope="col">schedule</th><th scope="col" class="number">estimate</th><th scope="col">measured</th><th scope="col" /></tr></thead>
            <tbody>
              {candidates.slice(0, 200).map(({ name, schedule: text, estimate_us, measured_us, outcome }, place) => (
                <tr key={place}>
                  <td class="wrap"><span class="mono">{text || "no action"}</span> <span class="muted">{[name, outcome].filter(Boolean).join(": ")}</span></td>
                  <td class="number">{microseconds(estimate_us)}</td>
                  <td class="time"><Bar part={measured_us ?? 0} whole={slowest}>{microseconds(measured_us)}</Bar></td>
                  <td><a href={href(`${kernel.id}/schedule`, { text })}>edit</a></td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </section>
  );
}
