/** Light and dark: as the system says, until the reader chooses; and colours for what is drawn on a canvas. */
import { useEffect, useState } from "preact/hooks";

export type Theme = "auto" | "light" | "dark";
const KEY = "planish-theme";

export function storedTheme(): Theme {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === "light" || theme === "dark" ? theme : "auto";
  } catch {
    return "auto"; // a file opened without storage
  }
}

export function applyTheme(theme: Theme): void {
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Not remembered then.
  }
  window.dispatchEvent(new Event("planish-theme"));
}

/** A number that grows whenever colours change: canvases draw again. */
export function useThemeVersion(): number {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const grow = () => setVersion((old) => old + 1);
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", grow);
    window.addEventListener("planish-theme", grow);
    return () => {
      media.removeEventListener("change", grow);
      window.removeEventListener("planish-theme", grow);
    };
  }, []);
  return version;
}

/** The computed colour of each custom property: a canvas cannot read `var()` or `light-dark()`. */
export function palette<K extends string>(...names: K[]): Record<K, string> {
  const probe = document.createElement("span");
  document.body.append(probe);
  const colours = {} as Record<K, string>;
  for (const name of names) {
    probe.style.color = `var(--${name})`;
    colours[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return colours;
}

/** The eight colours that tell kinds of things apart. */
export function hues(): string[] {
  const names = Array.from({ length: 8 }, (_, hue) => `hue-${hue}`);
  return Object.values(palette(...names));
}
