/** Where documents come from: the server that sent this page, or the page itself when it is an export. */
import type { Roofline, ScheduleAnswer, SearchDocument, SearchResult } from "./documents";

export interface Source {
  get<T>(path: string): Promise<T>;
  /** What the live server finds; null where the documents hold their own index (`search.json`). */
  search(query: string): Promise<SearchResult[] | null>;
  schedule(kernel: string, schedule: string, measure: boolean): Promise<ScheduleAnswer>;
  /** What the machine can do, by target, measured now. */
  measure(): Promise<Record<string, Roofline>>;
}

/** How many documents are remembered: enough to go back and forth, little enough for a day of looking. */
const REMEMBERED = 400;

abstract class Remembering implements Source {
  private readonly documents = new Map<string, Promise<unknown>>();

  get<T>(path: string): Promise<T> {
    let document = this.documents.get(path);
    if (document === undefined) {
      document = this.load(path);
      // A failure is not remembered: the next look asks again.
      document.catch(() => this.documents.delete(path));
    } else {
      this.documents.delete(path);
    }
    this.documents.set(path, document);
    if (this.documents.size > REMEMBERED) {
      const oldest = this.documents.keys().next().value;
      if (oldest !== undefined && oldest !== "index.json") this.documents.delete(oldest);
    }
    return document as Promise<T>;
  }

  protected abstract load(path: string): Promise<unknown>;
  abstract search(query: string): Promise<SearchResult[] | null>;
  abstract schedule(kernel: string, schedule: string, measure: boolean): Promise<ScheduleAnswer>;
  abstract measure(): Promise<Record<string, Roofline>>;
}

async function answer(response: Response, path: string): Promise<unknown> {
  let body: unknown;
  try {
    body = await response.json();
  } catch {
    throw new Error(`${path}: the server answered ${response.status} without a document`);
  }
  if (!response.ok) {
    const told = (body as { error?: unknown }).error;
    throw new Error(typeof told === "string" ? told : `${path}: the server answered ${response.status}`);
  }
  return body;
}

class HttpSource extends Remembering {
  private readonly token = new URLSearchParams(location.search).get("token");

  private address(path: string, query: Record<string, string> = {}): string {
    const parameters = new URLSearchParams(query);
    if (this.token !== null) parameters.set("token", this.token);
    const text = parameters.toString();
    return `./api/${path.split("/").map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
  }

  protected async load(path: string): Promise<unknown> {
    let response: Response;
    try {
      response = await fetch(this.address(path));
    } catch {
      throw new Error(`${path}: the server does not answer; it ends with the \`planish viz\` that started it`);
    }
    return answer(response, path);
  }

  async search(query: string): Promise<SearchResult[] | null> {
    const body = (await answer(await fetch(this.address("search", { q: query })), "search")) as SearchDocument;
    return body.results;
  }

  private async post(path: string, body: unknown): Promise<unknown> {
    const headers = { "Content-Type": "application/json" };
    return answer(await fetch(this.address(path), { method: "POST", headers, body: JSON.stringify(body) }), path);
  }

  schedule(kernel: string, schedule: string, measure: boolean): Promise<ScheduleAnswer> {
    return this.post("schedule", { kernel, schedule, measure }) as Promise<ScheduleAnswer>;
  }

  measure(): Promise<Record<string, Roofline>> {
    return this.post("measure", {}) as Promise<Record<string, Roofline>>;
  }
}

async function unpacked(base64: string): Promise<unknown> {
  const bytes = Uint8Array.from(atob(base64.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

class ExportSource extends Remembering {
  constructor(private readonly scripts: Map<string, HTMLScriptElement>) {
    super();
  }

  protected async load(path: string): Promise<unknown> {
    const script = this.scripts.get(path);
    if (script === undefined) throw new Error(`${path} was left out of this export; the live page has it`);
    return unpacked(script.textContent ?? "");
  }

  search(): Promise<null> {
    return Promise.resolve(null);
  }

  schedule(): Promise<ScheduleAnswer> {
    return Promise.reject(new Error("an exported page cannot compile; open the recording with `planish viz`"));
  }

  measure(): Promise<Record<string, Roofline>> {
    return Promise.reject(new Error("an exported page cannot measure; open the recording with `planish viz`"));
  }
}

/** The documents inside this page where it carries some, the server's otherwise. */
export function openSource(): Source {
  const scripts = new Map<string, HTMLScriptElement>();
  for (const script of document.querySelectorAll<HTMLScriptElement>("script[data-path]")) {
    scripts.set(script.dataset["path"] ?? "", script);
  }
  return scripts.size > 0 ? new ExportSource(scripts) : new HttpSource();
}
