/** Places in the recording as `#/path?key=value`: every view can be linked to, reloaded and gone back from. */
import { useEffect, useState } from "preact/hooks";

export interface Route {
  path: string[];
  query: Record<string, string>;
}

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const query = Object.fromEntries(new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)));
  return { path: path.split("/").filter(Boolean).map(decoded), query };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A link; empty values are left out, so that the plain view has the plain address. */
export function href(path: string, query: Record<string, string | number | null | undefined> = {}): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") parameters.set(key, String(value));
  }
  const text = parameters.toString();
  return `#/${path.split("/").map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Goes to a place. Steps replace the address: one thousand steps are not one thousand clicks on Back. */
export function go(target: string, replace = false): void {
  if (target === location.hash) return;
  if (replace) history.replaceState(null, "", target);
  else history.pushState(null, "", target);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The same place with other parameters. */
export function withQuery(route: Route, changes: Record<string, string | number | null>): string {
  return href(route.path.join("/"), { ...route.query, ...changes });
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const update = () => setRoute(parseRoute(location.hash));
    window.addEventListener("hashchange", update);
    return () => window.removeEventListener("hashchange", update);
  }, []);
  return route;
}
