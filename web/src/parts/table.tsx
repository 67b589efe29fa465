/** A sortable table of any length. */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { VirtualList } from "./virtual";

export interface Column<T> {
  key: string;
  title: string;
  /** CSS grid width. */
  width: string;
  cell: (row: T) => ComponentChildren;
  /** What to sort by; a column without it cannot be sorted. */
  by?: (row: T) => number | string | null | undefined;
  number?: boolean;
  /** Left out where the table is narrower than this many pixels. */
  from?: number;
}

export interface Sort {
  key: string;
  down: boolean;
}

/** `-measured` sorts by that column from the largest down: how a link spells it. */
export const parseSort = (text: string | undefined, fallback: string): Sort => {
  const key = text || fallback;
  return key.startsWith("-") ? { key: key.slice(1), down: true } : { key, down: false };
};

interface TableProps<T> {
  rows: T[];
  columns: Column<T>[];
  sort: Sort;
  onSort: (text: string) => void;
  label: string;
  current?: T | null;
  link?: (row: T) => string;
  rowHeight?: number;
}

export function sorted<T>(rows: T[], columns: Column<T>[], sort: Sort): T[] {
  const by = columns.find((column) => column.key === sort.key)?.by;
  if (by === undefined) return rows;
  const sign = sort.down ? -1 : 1;
  // What is unknown comes last either way.
  return [...rows].sort((a, b) => {
    const [left, right] = [by(a), by(b)];
    if (left === right) return 0;
    if (left === null || left === undefined) return 1;
    if (right === null || right === undefined) return -1;
    return left < right ? -sign : sign;
  });
}

/** Figures start from the largest, names from the first; a second click turns the order round. */
function next<T>(column: Column<T>, sort: Sort): string {
  const down = column.key === sort.key ? !sort.down : column.number === true;
  return down ? `-${column.key}` : column.key;
}

export function Table<T>({ rows, columns: all, sort, onSort, label, current, link, rowHeight = 28 }: TableProps<T>) {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(1000);
  useLayoutEffect(() => {
    const measure = () => setWidth(frame.current?.clientWidth ?? 1000);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  const columns = useMemo(() => all.filter(({ from = 0 }) => width >= from), [all, width]);
  const ordered = useMemo(() => sorted(rows, all, sort), [rows, all, sort.key, sort.down]);
  const place = current === null || current === undefined ? null : ordered.indexOf(current);
  // The name leads to the row's place, from anywhere in the row.
  const linked = (columns.find(({ key }) => key === "name") ?? columns[0])?.key;
  const template = { gridTemplateColumns: columns.map((column) => column.width).join(" ") };
  return (
    <div class="table" ref={frame} role="grid" aria-label={label} aria-rowcount={ordered.length + 1}>
      <div class="table-head" style={template} role="row" aria-rowindex={1}>
        {columns.map((column) => {
          const on = column.key === sort.key;
          const order = on ? (sort.down ? "descending" : "ascending") : undefined;
          return (
            <div key={column.key} role="columnheader" aria-sort={order} class={column.number ? "number" : ""}>
              {column.by === undefined ? (
                <span>{column.title}</span>
              ) : (
                <button
                  type="button"
                  class={on ? "on" : ""}
                  onClick={() => onSort(next(column, sort))}
                >
                  {column.title}
                  <span aria-hidden="true">{on ? (sort.down ? " ↓" : " ↑") : ""}</span>
                </button>
              )}
            </div>
          );
        })}
      </div>
      <VirtualList
        count={ordered.length}
        rowHeight={rowHeight}
        label={label}
        role="rowgroup"
        current={place}
        row={(line) => {
          const row = ordered[line]!;
          const cells = columns.map((column) => (
            <div key={column.key} role="gridcell" class={column.number ? "cell number" : "cell"}>
              {link !== undefined && column.key === linked ? <a class="stretched" href={link(row)}>{column.cell(row)}</a> : column.cell(row)}
            </div>
          ));
          return (
            <div class={`table-row ${line === place ? "current" : ""} ${line % 2 ? "odd" : ""}`} style={template} role="row" aria-rowindex={line + 2} aria-selected={line === place || undefined}>
              {cells}
            </div>
          );
        }}
      />
    </div>
  );
}
