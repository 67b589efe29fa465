/** How much of the arena is in use at each step of a call, and where the most is. */
import type { BufferEntry } from "../documents";
import { bytes, counted } from "../format";

export interface MemoryUse {
  /** Bytes in use, by step. */
  bytes: number[];
  peak: number;
  /** The step of the peak. */
  at: number;
  /** What is in use then, the largest first. */
  held: BufferEntry[];
}

/** Every buffer of the arena counts from its first to its last use. */
export function memoryUse(arena: BufferEntry[], steps: number): MemoryUse {
  const change = new Float64Array(steps + 1);
  for (const { first, last, bytes: size } of arena) {
    change[first]! += size;
    change[Math.min(steps, last + 1)]! -= size;
  }
  const used: number[] = [];
  let now = 0;
  for (let step = 0; step < steps; step++) used.push((now += change[step]!));
  const peak = used.reduce((high, value) => Math.max(high, value), 0);
  const at = used.indexOf(peak);
  const held = arena.filter(({ first, last }) => first <= at && at <= last).sort((a, b) => b.bytes - a.bytes);
  return { bytes: used, peak, at, held };
}

const [WIDTH, HEIGHT, TOP] = [1000, 110, 18];

export function MemoryCurve({ use, arena, labels }: { use: MemoryUse; arena: number; labels: string[] }) {
  const steps = use.bytes.length;
  if (steps === 0 || use.peak === 0) return null;
  const most = Math.max(arena, use.peak);
  const x = (step: number) => (step / steps) * WIDTH;
  const y = (value: number) => HEIGHT - (value / most) * (HEIGHT - TOP);
  const line = use.bytes.map((value, step) => `${step === 0 ? "M" : "L"}${x(step)} ${y(value)}H${x(step + 1)}`).join("");
  const named = labels[use.at] || `step ${use.at}`;
  const held = use.held.slice(0, 3).map(({ name, bytes: size }) => `${name} ${bytes(size)}`).join(", ");
  const more = use.held.length > 3 ? ` and ${counted(use.held.length - 3, "buffer")} more` : "";
  return (
    <figure class="memory-curve">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`Memory in use over ${counted(steps, "step")}: the peak is ${bytes(use.peak)} at ${named}`}>
        <path class="area" d={`${line}V${HEIGHT}H0Z`} />
        <path class="edge" d={line} />
        <line class="whole" x1={0} x2={WIDTH} y1={y(arena)} y2={y(arena)} />
        <line class="peak" x1={x(use.at + 0.5)} x2={x(use.at + 0.5)} y1={y(use.peak)} y2={HEIGHT} />
      </svg>
      <figcaption>
        <b>{bytes(use.peak)}</b> in use at the peak, at step {use.at} <span class="mono">{named}</span>: {held}{more}
      </figcaption>
    </figure>
  );
}
