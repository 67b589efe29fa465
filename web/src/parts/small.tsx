/** Small pieces that every view uses. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Loaded } from "../data";

export function Waiting({ loaded, what = "Loading" }: { loaded: Loaded<unknown>; what?: string }) {
  return loaded.problem === null ? (
    <p class="notice quiet" role="status">{what}…</p>
  ) : (
    <p class="notice bad" role="alert">{loaded.problem}</p>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="notice">{children}</p>;
}

export function CopyButton({ text }: { text: string }) {
  const [done, setDone] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1200);
    }, () => undefined);
  };
  return (
    <button type="button" class="small" onClick={copy}>
      {done ? "Copied" : "Copy"}
    </button>
  );
}

/** One of several, as a row of buttons. */
export function Choice<T extends string>(props: {
  label: string;
  options: (readonly [T, string])[];
  value: T;
  onChange: (value: T) => void;
}) {
  return (
    <div class="choice" role="radiogroup" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button
          type="button"
          role="radio"
          key={value}
          aria-checked={value === props.value}
          class={value === props.value ? "on" : ""}
          onClick={() => props.onChange(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

/** A share of a whole as a bar behind a figure. */
export function Bar({ part, whole, children }: { part: number; whole: number; children: ComponentChildren }) {
  const share = whole > 0 ? Math.min(100, Math.max(0, (100 * part) / whole)) : 0;
  return (
    <span class="bar">
      <span class="bar-fill" style={{ width: `${share}%` }} />
      <span class="bar-text">{children}</span>
    </span>
  );
}

export function Facts({ items }: { items: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {items.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Header({ title, sub, children }: { title: ComponentChildren; sub?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="view-head">
      <div class="view-title">
        <h1>{title}</h1>
        {sub !== undefined && <div class="sub">{sub}</div>}
      </div>
      <div class="tools">{children}</div>
    </header>
  );
}

export function Filter({ value, onInput, label }: { value: string; onInput: (text: string) => void; label: string }) {
  return (
    <input
      type="search"
      class="filter"
      placeholder={label}
      aria-label={label}
      value={value}
      onInput={(event) => onInput(event.currentTarget.value)}
    />
  );
}

/** Whether all words of a filter occur in a text. */
export function matches(filter: string, ...texts: (string | null | undefined)[]): boolean {
  const text = texts.join(" ").toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
