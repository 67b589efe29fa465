/** What every rule of a stage says of one node: that it applied, or why not. */
import { useState } from "preact/hooks";
import { useDocument, useProgramId, useRecording } from "../data";
import type { NodeDocument } from "../documents";
import { ruleName } from "../format";
import { href } from "../route";
import { Waiting } from "./small";

export function NodeRules({ path }: { path: string }) {
  const [asked, setAsked] = useState("");
  const { index } = useRecording();
  const program = useProgramId();
  const answer = useDocument<NodeDocument>(asked === path ? path : null);
  if (asked !== path) return <button type="button" class="small" onClick={() => setAsked(path)}>Why did rules not apply?</button>;
  if (answer.value === null) return <Waiting loaded={answer} />;
  if (answer.value.rules.length === 0) return <p class="muted">No rule of this stage looks at such a node.</p>;
  return (
    <ul class="node-rules">
      {answer.value.rules.map(({ rule, applied, reason }) => (
        <li key={rule}>
          <a href={href(`${program}/rules`, { rule })} title={index.rules[rule]?.equation ?? ""}>{ruleName(index.rules[rule]?.name ?? rule)}</a>{" "}
          <span class={applied ? "plus" : "muted"}>{reason}</span>
        </li>
      ))}
    </ul>
  );
}
