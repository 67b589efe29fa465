/** Figures as people read them: three digits and a unit. */

function digits(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function scaled(value: number | null | undefined, units: [number, string][]): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const [scale, unit] = units.find(([least]) => size >= least) ?? units[units.length - 1]!;
  return `${digits(value / scale)} ${unit}`;
}

export const microseconds = (us: number | null | undefined): string =>
  us === 0 ? "0 µs" : scaled(us, [[1e6, "s"], [1e3, "ms"], [1, "µs"], [1e-3, "ns"]]);

export const milliseconds = (ms: number | null | undefined): string =>
  microseconds(ms === null || ms === undefined ? ms : ms * 1e3);

export const bytes = (count: number | null | undefined): string =>
  scaled(count, [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);

export const flops = (count: number | null | undefined): string =>
  scaled(count, [[1e12, "TFLOP"], [1e9, "GFLOP"], [1e6, "MFLOP"], [1e3, "kFLOP"], [1, "FLOP"]]);

export const rate = (value: number | null | undefined, unit: string): string =>
  value === null || value === undefined ? "–" : `${digits(value)} ${unit}`;

export const count = (value: number | null | undefined): string =>
  value === null || value === undefined ? "–" : value.toLocaleString("en-US");

export const percent = (part: number, whole: number): string =>
  whole > 0 ? `${digits((100 * part) / whole)} %` : "–";

export const ratio = (value: number | null): string => (value === null ? "–" : `${value.toFixed(2)}×`);

/** "1 step", "2 steps". */
export const counted = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** An origin with the file's name instead of its whole path. */
export const short = (origin: string | null | undefined): string => (origin ?? "").replace(/(^|\s)\S*\/(?=[^/\s]+:\d)/, "$1");

/** A rule's name as words; rules that are functions of ours are named like those. */
export const ruleName = (name: string): string => (/^_\w+$/.test(name) ? name.slice(1).replaceAll("_", " ") : name);

/** A moment as the reader's clock says it, to the minute. */
export function when(created: string | null | undefined): string {
  const date = new Date(created ?? "");
  if (Number.isNaN(date.getTime())) return created || "–";
  const two = (value: number) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}
