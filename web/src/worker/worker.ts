/** The worker: layouts, diffs and searches, so that the page keeps scrolling meanwhile. */
import type { SearchResult } from "../documents";
import { diffRows } from "./diff";
import { layOut } from "./layout";
import type { Request } from "./messages";
import { find } from "./search";

let entries: SearchResult[] = [];

function answer(request: Request): unknown {
  switch (request.kind) {
    case "layout":
      return layOut(request);
    case "diff":
      return diffRows(request.before, request.after);
    case "search":
      entries = request.entries ?? entries;
      return find(entries, request.query, request.limit);
  }
}

self.onmessage = ({ data }: MessageEvent<{ id: number; request: Request }>) => {
  try {
    self.postMessage({ id: data.id, answer: answer(data.request) });
  } catch (problem) {
    self.postMessage({ id: data.id, problem: problem instanceof Error ? problem.message : String(problem) });
  }
};
