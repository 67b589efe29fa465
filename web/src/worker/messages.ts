/** What the page asks its worker, and what the worker answers. */
import type { SearchResult } from "../documents";

export interface LayoutNode {
  id: string;
  width: number;
  height: number;
}

export interface LayoutRequest {
  kind: "layout";
  nodes: LayoutNode[];
  edges: [from: string, to: string][];
  direction: "TB" | "LR";
}

export interface Layout {
  /** Centres, in the order of the request's nodes. */
  x: Float32Array;
  y: Float32Array;
  /** Bend points x, y, x, y … of each edge. */
  bends: Float32Array[];
  width: number;
  height: number;
}

export interface DiffRequest {
  kind: "diff";
  before: string;
  after: string;
}

/** One row of a side-by-side diff; a number is the line on that side, null a gap. */
export interface DiffRow {
  before: number | null;
  after: number | null;
  kind: "same" | "changed" | "removed" | "added";
}

export interface Diff {
  rows: DiffRow[];
  added: number;
  removed: number;
  /** What a name before is called after, where only the numbering changed. */
  names: Record<string, string>;
}

export interface SearchRequest {
  kind: "search";
  /** Sent once; remembered by the worker. */
  entries?: SearchResult[];
  query: string;
  limit: number;
}

export interface SearchAnswer {
  results: SearchResult[];
  total: number;
}

export type Request = LayoutRequest | DiffRequest | SearchRequest;
export type Answer<R extends Request> = R extends LayoutRequest ? Layout : R extends DiffRequest ? Diff : SearchAnswer;
