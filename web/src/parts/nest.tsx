/** A loop nest, drawn as it would be written: each loop inside its parent, coloured by what runs it. */
import type { Loop } from "../documents";

/** Which of the eight colours a kind of loop has. */
const HUES: Record<string, number> = { parallel: 1, thread: 1, global: 1, local: 2, warp: 2, vector: 3, lane: 3, upcast: 3, unroll: 4, reduce: 5, serial: 0, loop: 0 };

interface NestProps {
  loops: Loop[];
  chosen?: string | null;
  onChoose?: (axis: string) => void;
}

export function Nest({ loops, chosen, onChoose }: NestProps) {
  if (loops.length === 0) return <p class="muted">no loop</p>;
  return (
    <ul class="nest" role="tree" aria-label="Loop nest">
      {loops.map((loop, place) => (
        <Branch key={`${loop.axis} ${place}`} loop={loop} chosen={chosen} onChoose={onChoose} />
      ))}
    </ul>
  );
}

function Branch({ loop, chosen, onChoose }: { loop: Loop } & Omit<NestProps, "loops">) {
  const { axis, extent, kind, children = [] } = loop;
  const body = (
    <>
      <span class={`dot hue-${HUES[kind] ?? 6}`} /> <b>for</b> {axis} <b>in</b> {String(extent)} <span class="muted">{kind}</span>
    </>
  );
  return (
    <li role="treeitem" aria-selected={chosen === axis}>
      {onChoose === undefined ? (
        <span class="loop mono">{body}</span>
      ) : (
        <button type="button" class={`loop mono ${chosen === axis ? "on" : ""}`} onClick={() => onChoose(axis)}>{body}</button>
      )}
      {children.length > 0 && (
        <ul role="group">
          {children.map((child, place) => (
            <Branch key={`${child.axis} ${place}`} loop={child} chosen={chosen} onChoose={onChoose} />
          ))}
        </ul>
      )}
    </li>
  );
}
