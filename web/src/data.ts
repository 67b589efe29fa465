/** Documents inside components: what the page was opened on, and hooks that wait for more. */
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { Index, KernelEntry, Program } from "./documents";
import { parseRoute } from "./route";
import type { Source } from "./source";

export interface Recording {
  source: Source;
  index: Index;
}

export const RecordingContext = createContext<Recording>(null as unknown as Recording);
export const useRecording = (): Recording => useContext(RecordingContext);

export type Loaded<T> = { value: T; problem: null } | { value: null; problem: string } | { value: null; problem: null };

const WAITING = { value: null, problem: null } as const;

/** The result of a promise made anew whenever `key` changes; null as the key asks nothing. */
export function usePromise<T>(make: () => Promise<T>, key: string | null): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; loaded: Loaded<T> }>({ key, loaded: WAITING });
  useEffect(() => {
    if (key === null) return undefined;
    let current = true;
    make().then(
      (value) => current && setState({ key, loaded: { value, problem: null } }),
      (problem: unknown) =>
        current &&
        setState({ key, loaded: { value: null, problem: problem instanceof Error ? problem.message : String(problem) } }),
    );
    return () => {
      current = false;
    };
  }, [key]);
  return state.key === key ? state.loaded : WAITING;
}

export function useDocument<T>(path: string | null): Loaded<T> {
  const { source } = useRecording();
  return usePromise(() => source.get<T>(path!), path);
}

/** The program that the address names, for links from parts that are shown in any of them. */
export function useProgramId(): string {
  const { index } = useRecording();
  const named = parseRoute(location.hash).path[0];
  return index.programs.find(({ id }) => id === named)?.id ?? index.programs[0]?.id ?? "p0";
}

/** Kernels by id, made once for each program. */
const tables = new WeakMap<Program, Map<string, KernelEntry>>();

export function kernelOf(program: Program, id: string): KernelEntry | undefined {
  let table = tables.get(program);
  if (table === undefined) {
    table = new Map(program.kernels.map((kernel) => [kernel.id, kernel]));
    tables.set(program, table);
  }
  return table.get(id);
}

export const stepsOf = (kernel: KernelEntry): number => kernel.stages.reduce((sum, stage) => sum + stage.steps, 0);

export const bestTime = (kernel: KernelEntry): number | null => kernel.measured_us ?? kernel.estimate_us ?? null;
