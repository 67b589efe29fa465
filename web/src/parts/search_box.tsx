/** The search field of the bar, with what it finds while one types. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "../ask";
import { type Recording, usePromise, useRecording } from "../data";
import type { SearchDocument, SearchResult } from "../documents";
import { go, href } from "../route";
import type { SearchAnswer } from "../worker/messages";
import { levelName } from "./side";

/** What the index alone holds: found before any document is there. */
function indexEntries({ index }: Recording): SearchResult[] {
  const entries: SearchResult[] = [];
  for (const program of index.programs) {
    entries.push(["program", program.id, program.name]);
    program.passes.forEach((pass, place) => entries.push(["pass", `${program.id}/pass/${place}`, pass.name]));
    for (const kernel of program.kernels) {
      entries.push(["kernel", kernel.id, `${kernel.name}  ${kernel.origin ?? ""}`]);
      for (const stage of kernel.stages) {
        if (stage.changed) entries.push(["stage", `${kernel.id}/stage/${stage.n}`, `${stage.name}  ${kernel.name}`]);
      }
      for (const level of kernel.levels) {
        entries.push(["level", `${kernel.id}/level/${level}`, `${levelName(level)}  ${kernel.name}`]);
      }
    }
  }
  for (const [id, rule] of Object.entries(index.rules)) {
    entries.push(["rule", `rule/${id}`, `${rule.name}  ${rule.equation ?? ""}`]);
  }
  return entries;
}

/** One place may be found by several of its texts; its name is told once. */
function unknown(results: SearchResult[], known: SearchResult[]): SearchResult[] {
  const names = new Map(known.map(([kind, id, text]) => [`${kind} ${id}`, text.split("  ")[0]!]));
  return results.filter(([kind, id, text]) => !text.startsWith(names.get(`${kind} ${id}`) ?? "\n"));
}

let prepared: Promise<void> | null = null;

async function prepare(recording: Recording): Promise<void> {
  const entries = indexEntries(recording);
  if (!recording.index.live) {
    const stored = await recording.source
      .get<SearchDocument>("search.json")
      .catch(() => ({ results: [] as SearchResult[] }));
    entries.push(...unknown(stored.results, entries));
  }
  await ask({ kind: "search", entries, query: "", limit: 0 });
}

export async function searchEverything(recording: Recording, query: string, limit: number): Promise<SearchAnswer> {
  prepared ??= prepare(recording);
  await prepared;
  const near = await ask({ kind: "search", query, limit });
  const far = query.trim().length < 2 ? null : await recording.source.search(query).catch(() => null);
  if (far === null) return near;
  const more = unknown(far, near.results);
  return { results: [...near.results, ...more].slice(0, limit), total: near.total + more.length };
}

/** Where a result leads; the recorder gives the path and its parameters in one. */
export function resultHref(id: string): string {
  const [path = "", query = ""] = id.split(/\?(.*)/s);
  return href(path, Object.fromEntries(new URLSearchParams(query)));
}

const LIMIT = 12;

export function SearchBox({ input }: { input: RefObject<HTMLInputElement | null> }) {
  const recording = useRecording();
  const [query, setQuery] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const box = useRef<HTMLDivElement>(null);
  const found = usePromise(() => searchEverything(recording, query, LIMIT), open && query.trim() !== "" ? query : null);
  const results = found.value?.results ?? [];
  useEffect(() => setAt(-1), [query]);
  const leave = () => {
    setOpen(false);
    input.current?.blur();
  };
  const all = href("search", { q: query });
  const choose = () => {
    const result = results[at];
    go(result === undefined ? all : resultHref(result[1]));
    leave();
  };
  const keydown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(results.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(-1, at - 1));
    else if (event.key === "Enter" && query.trim() !== "") choose();
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  };
  const focusout = (event: FocusEvent) => {
    if (!box.current?.contains(event.relatedTarget as Node | null)) setOpen(false);
  };
  return (
    <div class="search" ref={box} onFocusOut={focusout}>
      <input
        ref={input}
        type="text"
        list={undefined}
        role="combobox"
        aria-expanded={open && results.length > 0}
        aria-controls="search-results"
        aria-activedescendant={at >= 0 ? `search-${at}` : undefined}
        aria-label="Search over everything"
        placeholder="Search kernels, rules, code …"
        value={query}
        onFocus={() => setOpen(true)}
        onInput={(event) => {
          setQuery(event.currentTarget.value);
          setOpen(true);
        }}
        onKeyDown={keydown}
      />
      <kbd aria-hidden="true">/</kbd>
      {open && query.trim() !== "" && (
        <div class="results" id="search-results" role="listbox" aria-label="Found">
          {results.map(([kind, id, text], place) => (
            <a key={place} id={`search-${place}`} role="option" aria-selected={place === at} class={place === at ? "on" : ""} href={resultHref(id)} onClick={leave} tabIndex={-1}>
              <span class="kind">{kind}</span>
              <span class="found">{text}</span>
            </a>
          ))}
          {found.value === null ? (
            <p class="muted">{found.problem ?? "Searching…"}</p>
          ) : results.length === 0 ? (
            <p class="muted">Nothing found.</p>
          ) : (
            <a href={all} onClick={leave} tabIndex={-1} class="all">All {found.value.total} results ↵</a>
          )}
        </div>
      )}
    </div>
  );
}
