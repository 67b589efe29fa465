/** Kernels against the machine's roofs: arithmetic rate over arithmetic intensity, both logarithmic. */
import { useState } from "preact/hooks";
import { useRecording } from "../data";
import type { Roofline } from "../documents";
import { rate } from "../format";

export interface Dot {
  id: string;
  name: string;
  intensity: number;
  gflops: number;
  /** Share of the run, the dot's area. */
  weight: number;
  hue: number;
}

interface RooflineProps {
  dots: Dot[];
  roofline: Roofline | null;
  onOpen: (id: string) => void;
  /** Where the machine can be measured: what to do with its roofs. */
  onMeasured?: ((rooflines: Record<string, Roofline>) => void) | undefined;
}

const MEASURED = "measured on this machine";

/** Where the roofs are from, and a button that measures them. */
function Origin({ roofline, onMeasured }: Pick<RooflineProps, "roofline" | "onMeasured">) {
  const { source } = useRecording();
  const [state, setState] = useState<"idle" | "busy" | string>("idle");
  const measure = () => {
    setState("busy");
    source.measure().then(
      (found) => { setState("idle"); onMeasured?.(found); },
      (problem: unknown) => setState(problem instanceof Error ? problem.message : String(problem)),
    );
  };
  return (
    <figcaption class="muted">
      {roofline === null ? "The machine's roofs are not known" : `The roofs are ${roofline.source}`}.{" "}
      {roofline?.source !== MEASURED && (onMeasured === undefined ? <><code>planish info --measure</code> measures them.</> : state === "busy" ? "Measuring, some ten seconds…" : <button type="button" class="small" onClick={measure}>Measure this machine</button>)}
      {state !== "idle" && state !== "busy" && <span class="minus" role="alert"> {state}</span>}
    </figcaption>
  );
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [520, 320, 48, 12, 14, 34];
const MOST = 400;

/** The names of roofs, those that lie close together in one line. */
function joined(peaks: [string, number][], y: (gflops: number) => number): { at: number; text: string }[] {
  const lines: { at: number; text: string }[] = [];
  for (const [dtype, gflops] of peaks) {
    const text = `${dtype} ${arithmetic(gflops)}`;
    const last = lines[lines.length - 1];
    if (last !== undefined && Math.abs(y(gflops) - 5 - last.at) < 13) last.text = `${last.text}, ${text}`;
    else lines.push({ at: Math.max(TOP - 3, y(gflops) - 5), text });
  }
  return lines;
}

const arithmetic = (gflops: number): string => (gflops >= 10_000 ? rate(gflops / 1e3, "TFLOP/s") : rate(gflops, "GFLOP/s"));

export function RooflinePlot({ dots, roofline, onOpen, onMeasured }: RooflineProps) {
  const peak = Math.max(0, ...Object.values(roofline?.gflops ?? {}));
  const peaks = Object.entries(roofline?.gflops ?? {}).filter(([, gflops]) => gflops > 0).sort(([, a], [, b]) => b - a);
  const bands = Object.entries(roofline?.gbs ?? {}).filter(([, gbs]) => gbs > 0).sort(([, a], [, b]) => b - a);
  if (dots.length === 0 && peak === 0) return <p class="notice">No kernel tells its work and traffic.</p>;
  const decades = (values: number[], low: number, high: number) => {
    const logs = values.filter((value) => value > 0).map(Math.log10);
    return [Math.floor(Math.min(low, ...logs)), Math.ceil(Math.max(high, ...logs))] as const;
  };
  const [x0, x1] = decades(dots.map(({ intensity }) => intensity), -1, 2);
  const [y0, y1] = decades([...dots.map(({ gflops }) => gflops), peak], 0, 1);
  const x = (value: number) => LEFT + ((Math.log10(value) - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
  const y = (value: number) => HEIGHT - BOTTOM - ((Math.log10(value) - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
  const ticks = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, place) => from + place);
  const named = (power: number) => (power >= 0 && power < 4 ? String(10 ** power) : `1e${power}`);
  const least = 10 ** x0;
  return (
    <figure class="roofline">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`Roofline: ${dots.length} kernels, peak ${rate(peak, "GFLOP/s")}`}>
        {ticks(x0, x1).map((power) => (
          <g key={power}>
            <line class="grid" x1={x(10 ** power)} x2={x(10 ** power)} y1={TOP} y2={HEIGHT - BOTTOM} />
            <text x={x(10 ** power)} y={HEIGHT - BOTTOM + 14} text-anchor="middle">{named(power)}</text>
          </g>
        ))}
        {ticks(y0, y1).map((power) => (
          <g key={power}>
            <line class="grid" x1={LEFT} x2={WIDTH - RIGHT} y1={y(10 ** power)} y2={y(10 ** power)} />
            <text x={LEFT - 6} y={y(10 ** power) + 4} text-anchor="end">{named(power)}</text>
          </g>
        ))}
        <text x={(LEFT + WIDTH) / 2} y={HEIGHT - 4} text-anchor="middle">FLOP per byte</text>
        <text x={12} y={HEIGHT / 2 - 10} text-anchor="middle" transform={`rotate(-90 12 ${HEIGHT / 2 - 10})`}>GFLOP/s</text>
        <clipPath id="roof-clip"><rect x={LEFT} y={TOP} width={WIDTH - LEFT - RIGHT} height={HEIGHT - TOP - BOTTOM} /></clipPath>
        <g clip-path="url(#roof-clip)">
          {bands.map(([level, gbs]) => {
            const knee = peak > 0 ? peak / gbs : 10 ** x1;
            return <line key={level} class="roof" x1={x(least)} y1={y(least * gbs)} x2={x(knee)} y2={y(knee * gbs)} />;
          })}
          {bands.length > 0 && peaks.map(([dtype, gflops]) => <line key={dtype} class="roof" x1={x(gflops / bands[0]![1])} x2={WIDTH - RIGHT} y1={y(gflops)} y2={y(gflops)} />)}
          {dots.slice(0, MOST).map((dot) => (
            <circle
              key={dot.id}
              class={`hue-${dot.hue}`}
              cx={x(dot.intensity)}
              cy={y(dot.gflops)}
              r={3 + 14 * Math.sqrt(dot.weight)}
              onClick={() => onOpen(dot.id)}
            >
              <title>{`${dot.name}: ${rate(dot.gflops, "GFLOP/s")} at ${rate(dot.intensity, "FLOP/B")}`}</title>
            </circle>
          ))}
        </g>
        {bands.map(([level, gbs]) => {
          // Beside its roof, where the roof enters the picture.
          const at = Math.max(least * 1.3, (10 ** y0 / gbs) * 1.6);
          return <text key={level} class="roof-name" x={x(at)} y={y(at * gbs) - 6}>{`${level} ${rate(gbs, "GB/s")}`}</text>;
        })}
        {joined(peaks, y).map(({ at, text }) => <text key={text} class="roof-name" x={WIDTH - RIGHT - 4} y={at} text-anchor="end">{text}</text>)}
      </svg>
      <Origin roofline={roofline} onMeasured={onMeasured} />
    </figure>
  );
}
