/** The keyboard: each view says which keys it takes; `?` shows the list that holds now. */
import { options } from "preact";
import { useEffect, useRef } from "preact/hooks";

export interface Binding {
  keys: string[];
  does: string;
  run: () => void;
}

const layers = new Set<{ current: Binding[] }>();

/** Takes keys while the component is shown; what came later goes first. */
export function useKeys(bindings: Binding[]): void {
  const layer = useRef(bindings);
  layer.current = bindings;
  useEffect(() => {
    layers.add(layer);
    return () => void layers.delete(layer);
  }, []);
}

export function bindings(): Binding[] {
  return [...layers].flatMap((layer) => layer.current);
}

const TYPING = new Set(["INPUT", "TEXTAREA", "SELECT"]);
/** What a focused element does itself: Enter presses a button, arrows move inside a graph. */
const OWN = new Set(["Enter", " ", "Tab"]);
/** Text that has focus scrolls by these. */
const SCROLLING = new Set(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"]);

/** Runs what a key does and draws it at once: a key that is held repeats faster than frames, and goes on from what is drawn. */
function now(run: () => void): void {
  const later = options.debounceRendering;
  options.debounceRendering = (draw) => draw();
  try {
    run();
  } finally {
    options.debounceRendering = later;
  }
}

export function listen(): void {
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target as HTMLElement;
    if (TYPING.has(target.tagName)) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (OWN.has(event.key) || (SCROLLING.has(event.key) && target.closest("[data-scrolls]") !== null)) return;
    for (const layer of [...layers].reverse()) {
      const binding = layer.current.find(({ keys }) => keys.includes(event.key));
      if (binding !== undefined) {
        event.preventDefault();
        now(binding.run);
        return;
      }
    }
  });
}

const SHOWN: Record<string, string> = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc" };
export const shown = (key: string): string => SHOWN[key] ?? key;
