/**
 * What a recording consists of: JSON documents, each addressed by a path.
 *
 * Everything here was written by the recorder from a user's program, so every text is untrusted: it is shown as
 * text and never read as markup. Fields that an older recording may lack are optional.
 */

export interface Roofline {
  gflops: Record<string, number>;
  gbs: Record<string, number>;
  ghz?: number;
  /** Where the figures are from. */
  source?: string;
}

export interface Machine {
  name?: string;
  target?: string;
  threads?: number;
  /** By target. */
  rooflines?: Record<string, Roofline>;
}

/** A stage of a kernel; the recorder writes it as a row, `named` makes it this. */
export interface StageEntry {
  n: number;
  name: string;
  ms: number;
  steps: number;
  changed: boolean;
}

export interface PassEntry {
  id: string;
  name: string;
  function?: string;
  ms: number;
  changed: boolean;
  steps: number;
  error?: string;
}

export type StageRow = [n: number, ms: number, steps: number, changed: number];

export interface KernelEntry {
  id: string;
  name: string;
  origin?: string | null;
  /** Launches in one call. */
  repeats?: number;
  /** The first kernel of the same ops, at other sizes. */
  like?: string | null;
  flops?: number | null;
  bytes?: number | null;
  /** Of most bytes that it touches. */
  dtype?: string;
  estimate_us?: number | null;
  measured_us?: number | null;
  compile_ms?: number | null;
  schedule?: string | null;
  stages: StageEntry[];
  levels: string[];
  /** Of a loop that became a kernel: the kernels of one turn. */
  parts?: string[];
  error?: string;
}

export type DataflowEdge = [from: string, to: string, tensor: string, bytes: number];

export interface Program {
  id: string;
  name: string;
  user?: { file: string; line: number } | null;
  target?: string;
  compile_ms?: number | null;
  phases?: { name: string; ms: number }[];
  passes: PassEntry[];
  kernels: KernelEntry[];
  edges?: DataflowEdge[];
  has?: { memory?: boolean; fusion?: boolean; timeline?: boolean; beam?: boolean; patterns?: boolean };
  error?: string | null;
}

export interface RuleEntry {
  name: string;
  equation?: string | null;
  file?: string | null;
  line?: number | null;
  engine?: string;
}

export interface RunEntry {
  id: string;
  program: string;
  total_us?: number | null;
}

export interface Index {
  version: number;
  live: boolean;
  title?: string;
  command?: string;
  created?: string;
  planish?: string;
  machine?: Machine;
  programs: Program[];
  runs?: RunEntry[];
  /** Names of stages by number. */
  stages?: Record<string, string>;
  rules: Record<string, RuleEntry>;
  steps_total?: number;
  /** The traceback of a script that raised; what came before it is recorded. */
  error?: string;
  compare?: Index | null;
}

/** The index with its stages by name: the recorder writes each name once. */
export function named(index: Index): Index {
  const name = (n: number) => index.stages?.[String(n)] ?? `stage ${n}`;
  for (const program of index.programs) {
    for (const kernel of program.kernels) {
      kernel.stages = (kernel.stages as unknown as StageRow[]).map(([n, ms, steps, changed]) => ({ n, ms, steps, changed: changed !== 0, name: name(n) }));
    }
  }
  if (index.compare) named(index.compare);
  return index;
}

export interface GraphNode {
  id: string | number;
  op: string;
  label?: string;
  type?: string;
  loc?: string | null;
  region?: string | number | null;
}

export type GraphEdge = [from: string | number, to: string | number, slot?: string | number | null];

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
  /** Nodes beyond the most that a graph is drawn with. */
  left_out?: number;
}

export interface Statistic {
  rule: string;
  tried: number;
  applied: number;
  ms?: number | null;
  failed?: Record<string, number>;
}

/** A pass or a stage: what stood before it, what after it, and how often each rule was tried. */
export interface StageDocument {
  /** Null: nothing changed. */
  before?: string | null;
  after: string;
  language?: string;
  graph?: Graph | null;
  steps_pages?: number;
  statistics?: Statistic[];
  note?: string | null;
}

export type Step = [
  rule: string,
  node: string | number | null,
  at_us: number | null,
  before: string,
  after: string,
  source: string | number | null,
  at?: (string | number)[] | null,
  us?: number | null,
  /** Above 0: inside of another rule. */
  depth?: number,
  made?: (string | number)[] | null,
];

export interface StepsDocument {
  first?: number;
  steps: Step[];
  /** Steps in a row of one rule. */
  folded?: { first: number; count: number }[];
}

export interface StepDocument {
  before: string;
  after: string;
  at?: (string | number)[];
  made?: (string | number)[];
  /** Whether the texts are the whole; else what the rewrite was about. */
  whole?: boolean;
  /** After it, where it is the whole. */
  graph?: Graph | null;
}

export interface LevelDocument {
  text: string;
  language?: string;
}

export interface Loop {
  axis: string;
  extent: number | string;
  kind: string;
  depth?: number;
  children?: Loop[];
}

export interface ActionReason {
  action: string;
  taken: boolean;
  /** Whether it may be applied at all. */
  legal?: boolean;
  reason?: string | null;
  estimate_us?: number | null;
  effect?: string;
}

export interface LoadReason {
  buffer: string;
  index?: string;
  store?: boolean;
  lanes?: number;
  wide: boolean;
  reason?: string | null;
}

export interface Candidate {
  name?: string;
  schedule: string;
  estimate_us?: number | null;
  measured_us?: number | null;
  outcome?: string;
}

export interface WhyDocument {
  origin?: string;
  /** Why what it makes is in memory. */
  because?: string[];
  bound_by?: string;
  note?: string;
  schedule?: ActionReason[];
  loads?: LoadReason[];
  nest?: { loops: Loop[]; legal_actions?: string[] } | null;
  candidates?: Candidate[];
}

export interface FusionDocument {
  pairs: { producer: string; consumer: string; fused: boolean; reason?: string | null; tensor?: string | null; /** Both read it. */ sibling?: boolean }[];
  /** Pairs beyond the most that are told. */
  left_out?: number;
}

export interface BufferEntry {
  name: string;
  bytes: number;
  /** Within the arena; null for memory of the caller's. */
  offset: number | null;
  first: number;
  last: number;
  role?: string;
}

export interface MemoryDocument {
  buffers: BufferEntry[];
  steps: number;
  /** What runs at each step. */
  labels?: string[];
  peak: number;
  lower_bound?: number;
  unshared?: number;
}

export interface PatternEntry {
  rule: string;
  tried: number;
  applied: number;
  ms?: number;
  failed?: { reason: string; count: number; example?: string | null }[];
}

/** Why a rule of kernels did not apply to the nodes that it was held to once more. */
export interface RuleFailures {
  rule: string;
  looked: number;
  failed: { reason: string; count: number; example?: string | null }[];
}

export interface FailedDocument {
  rules: RuleFailures[];
  /** Rules that the planish that shows this does not have. */
  unknown?: number;
}

/** What the rules of a stage say of one node. */
export interface NodeDocument {
  node: number;
  text: string;
  rules: { rule: string; applied: boolean; reason: string }[];
}

export interface TimelineEvent {
  name: string;
  kernel?: string | null;
  start_us: number;
  us: number;
  thread?: number | string;
  gflops?: number | null;
  gbs?: number | null;
  bytes?: number | null;
  flops?: number | null;
}

export interface TimelineDocument {
  events: TimelineEvent[];
  threads?: number;
  note?: string;
}

export interface BeamNode {
  id: number;
  /** Null for the schedule that the search started from. */
  parent: number | null;
  action: string;
  schedule: string;
  estimate_us?: number | null;
  measured_us?: number | null;
  kept: boolean;
  outcome?: string;
}

export interface BeamDocument {
  nodes: BeamNode[];
  considered?: number;
  rounds?: number;
  seconds?: number;
  ended?: string;
  refusals?: Record<string, number>;
}

export type SearchResult = [kind: string, id: string, text: string];

export interface SearchDocument {
  results: SearchResult[];
  left_out?: number;
}

export interface ScheduleAnswer {
  legal: boolean;
  refused?: { step: number | string; reason: string } | null;
  schedule?: string;
  levels?: Record<string, string | LevelDocument>;
  estimate_us?: number | null;
  measured_us?: number | null;
  note?: string;
}

/** Of the documents that this page reads. */
export const VERSION = 2;

/** Steps come in pages of this many. */
export const STEPS_PER_PAGE = 500;
