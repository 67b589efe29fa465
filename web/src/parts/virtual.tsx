/** Lists of any length: only the rows in sight exist. */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Browsers draw nothing past about 33 million pixels: longer lists are scrolled in proportion. */
const TALLEST = 15_000_000;
/** Rows beyond the edges that exist, and by how many of them the list may be scrolled before others are made. */
const OVERSCAN = 9;
const STRIDE = 6;

export interface VirtualProps {
  count: number;
  rowHeight: number;
  row: (place: number) => ComponentChildren;
  /** The row to keep in sight. */
  current?: number | null;
  label: string;
  role?: "listbox" | "list" | "rowgroup";
  className?: string;
  /** At least this wide, in characters of the list's font. */
  columns?: number;
  onVisible?: (first: number, last: number) => void;
  /** Arrow keys scroll it while it has focus, whatever they do elsewhere. */
  scrolls?: boolean;
  /** Two panes that scroll as one give the same group. */
  group?: ScrollGroup;
}

export class ScrollGroup {
  readonly panes = new Set<HTMLElement>();
  follow(leader: HTMLElement): void {
    for (const pane of this.panes) {
      if (pane === leader) continue;
      if (pane.scrollTop !== leader.scrollTop) pane.scrollTop = leader.scrollTop;
      if (pane.scrollLeft !== leader.scrollLeft) pane.scrollLeft = leader.scrollLeft;
    }
  }
}

export function VirtualList(props: VirtualProps) {
  const { count, rowHeight, row, current, label, role = "list", className = "", columns, onVisible, group, scrolls } = props;
  const pane = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const full = count * rowHeight;
  const height = Math.min(full, TALLEST);
  // How far the content moves for one pixel of the scroll bar.
  const stretch = height > view.height ? (full - view.height) / (height - view.height) : 1;
  const stretched = useRef(false);
  stretched.current = full > TALLEST;
  const top = view.top * stretch;
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const last = Math.min(count - 1, Math.ceil((top + view.height) / rowHeight) + OVERSCAN);

  useLayoutEffect(() => {
    const element = pane.current!;
    const measure = () =>
      setView((old) => {
        const { scrollTop, clientHeight } = element;
        // A list that is scrolled in proportion moves its rows with every pixel.
        const near = stretched.current ? scrollTop === old.top : Math.abs(scrollTop - old.top) < STRIDE * rowHeight && scrollTop > 0;
        return clientHeight === old.height && (near || scrollTop === old.top) ? old : { top: scrollTop, height: clientHeight };
      });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    const scrolled = () => {
      measure();
      group?.follow(element);
    };
    element.addEventListener("scroll", scrolled, { passive: true });
    group?.panes.add(element);
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", scrolled);
      group?.panes.delete(element);
    };
  }, [group]);

  useLayoutEffect(() => {
    if (current === null || current === undefined || current < 0) return;
    const element = pane.current!;
    const from = current * rowHeight;
    const seen = element.scrollTop * stretch;
    if (from < seen || from + 2 * rowHeight > seen + element.clientHeight) {
      element.scrollTop = Math.max(0, from - element.clientHeight / 3) / stretch;
    }
  }, [current, count]);

  useEffect(() => {
    if (count > 0) onVisible?.(first, last);
  }, [first, last, count]);

  // A row that stays is the same object, which is not looked at again.
  const made = useRef({ row, shift: 0, rows: new Map<number, ComponentChildren>() });
  const shift = top - view.top;
  if (made.current.row !== row || made.current.shift !== shift) made.current = { row, shift, rows: new Map() };
  const known = made.current.rows;
  const rows: ComponentChildren[] = [];
  const kept = new Map<number, ComponentChildren>();
  for (let place = first; place <= last; place++) {
    const one = known.get(place) ?? (
      <div key={place} class="vrow" role={role === "list" ? "listitem" : "presentation"} style={{ top: `${place * rowHeight - shift}px`, height: `${rowHeight}px` }}>
        {row(place)}
      </div>
    );
    kept.set(place, one);
    rows.push(one);
  }
  made.current.rows = kept;
  return (
    <div ref={pane} class={`virtual ${className}`} role={role} aria-label={label} tabIndex={0} data-scrolls={scrolls ? "yes" : undefined}>
      <div class="vspace" role="presentation" style={{ height: `${height}px`, minWidth: columns === undefined ? undefined : `${columns}ch` }}>
        {rows}
      </div>
    </div>
  );
}
