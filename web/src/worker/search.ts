/** Search over everything that an export carries: all words must occur, whole matches first. */
import type { SearchResult } from "../documents";
import type { SearchAnswer } from "./messages";

export function find(entries: SearchResult[], query: string, limit: number): SearchAnswer {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return { results: [], total: 0 };
  const found: { entry: SearchResult; score: number }[] = [];
  for (const entry of entries) {
    const text = `${entry[2]}\u0000${entry[1]}`.toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    const place = text.indexOf(words[0]!);
    found.push({ entry, score: (place === 0 ? 0 : place < entry[2].length ? 1000 : 2000) + Math.min(entry[2].length, 900) });
  }
  found.sort((a, b) => a.score - b.score);
  return { results: found.slice(0, limit).map(({ entry }) => entry), total: found.length };
}
