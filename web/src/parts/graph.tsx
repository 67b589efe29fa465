/** A graph on a canvas: laid out by the worker, moved by pointer or keys, with a filter that finds nodes. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask } from "../ask";
import { usePromise } from "../data";
import { count, counted } from "../format";
import { useThemeVersion } from "../theme";
import type { Layout } from "../worker/messages";
import { Camera, clipped } from "./camera";
import { drawGraph } from "./graph_drawing";
import { Filter, Waiting, matches } from "./small";

export interface DrawnNode {
  id: string;
  title: string;
  detail?: string;
  /** Shown when selected. */
  more?: string;
  /** One of eight colours; the same kind of node has the same. */
  hue: number;
}

export interface DrawnGraph {
  nodes: DrawnNode[];
  edges: [from: string, to: string, label?: string][];
}

interface GraphProps {
  graph: DrawnGraph;
  label: string;
  direction?: "TB" | "LR";
  /** Nodes that a step is about. */
  marked?: Set<string>;
  /** Nodes that the other side of a rewrite does not have, and how they are ringed: as new or as gone. */
  only?: { ids: Set<string>; tone: "good" | "bad" };
  onOpen?: (id: string) => void;
  /** More about the selected node. */
  info?: ((id: string) => preact.ComponentChildren) | undefined;
  /** Nodes that were too many to record. */
  leftOut?: number;
}

const CHARACTER = 6.7;
const WIDEST = 40;

export function sizeOf(node: DrawnNode): { width: number; height: number } {
  const characters = Math.max(clipped(node.title, WIDEST).length, clipped(node.detail ?? "", WIDEST).length);
  return { width: Math.max(56, characters * CHARACTER + 20), height: node.detail ? 38 : 24 };
}

/** Edges between nodes that are there, each once: sixteen lanes of one value are one line. */
function simple(graph: DrawnGraph, places: Map<string, number>): DrawnGraph["edges"] {
  const known = new Map<string, DrawnGraph["edges"][number]>();
  for (const edge of graph.edges) {
    if (places.has(edge[0]) && places.has(edge[1])) known.set(`${places.get(edge[0])} ${places.get(edge[1])}`, edge);
  }
  return [...known.values()];
}

export function GraphView({ graph, label, direction = "TB", marked, only, onOpen, info, leftOut = 0 }: GraphProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const camera = useRef(new Camera());
  const [version, setVersion] = useState(0);
  const [selected, setSelected] = useState<string | null>(null);
  const [filter, setFilter] = useState("");
  const theme = useThemeVersion();
  const places = useMemo(() => new Map(graph.nodes.map((node, place) => [node.id, place])), [graph]);
  const edges = useMemo(() => simple(graph, places), [graph]);
  useEffect(() => setVersion((old) => old + 1), [graph, direction]);
  const laid = usePromise<Layout>(
    () =>
      ask({
        kind: "layout",
        nodes: graph.nodes.map((node) => ({ id: node.id, ...sizeOf(node) })),
        edges: edges.map(([from, to]) => [from, to]),
        direction,
      }),
    version === 0 ? null : `${version}`,
  );
  const found = useMemo(
    () =>
      filter.trim() === ""
        ? null
        : new Set(graph.nodes.filter((node) => matches(filter, node.title, node.detail, node.more, node.id)).map(({ id }) => id)),
    [filter, graph],
  );
  const draw = useRef<() => void>(() => undefined);
  draw.current = () => {
    if (canvas.current === null || laid.value === null) return;
    drawGraph(canvas.current, { graph, edges, places, layout: laid.value, camera: camera.current, selected, marked, only, found });
  };
  useEffect(() => draw.current(), [laid.value, selected, marked, only, found, theme]);

  const reveal = (id: string) => {
    const place = places.get(id);
    if (place === undefined || laid.value === null || canvas.current === null) return;
    const { clientWidth, clientHeight } = canvas.current;
    if (camera.current.scale < 0.35) camera.current.zoom(0.8 / camera.current.scale, clientWidth / 2, clientHeight / 2);
    camera.current.reveal(laid.value.x[place]!, laid.value.y[place]!, clientWidth, clientHeight);
  };
  useEffect(() => {
    if (canvas.current === null || laid.value === null) return;
    camera.current.open(laid.value.width, laid.value.height, canvas.current.clientWidth, canvas.current.clientHeight);
    // The graph's sources lie at the top, not always in its middle.
    const [along, across] = direction === "TB" ? [laid.value.y, laid.value.x] : [laid.value.x, laid.value.y];
    const source = along.indexOf(along.reduce((least, value) => Math.min(least, value), Infinity));
    camera.current.toSource(direction, across[source] ?? 0, laid.value, canvas.current.clientWidth, canvas.current.clientHeight);
    draw.current();
  }, [laid.value]);
  useEffect(() => {
    const first = marked?.values().next().value ?? found?.values().next().value;
    if (first !== undefined) {
      reveal(first);
      draw.current();
    }
  }, [marked, found, laid.value]);

  useEffect(() => {
    const element = canvas.current;
    if (element === null) return undefined;
    let frame = 0;
    const later = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => draw.current());
    };
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      if (event.ctrlKey || !event.shiftKey) camera.current.zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
      else camera.current.x -= event.deltaY;
      later();
    };
    element.addEventListener("wheel", wheel, { passive: false });
    const observer = new ResizeObserver(later);
    observer.observe(element);
    return () => {
      cancelAnimationFrame(frame);
      element.removeEventListener("wheel", wheel);
      observer.disconnect();
    };
  }, [laid.value === null]);

  const nodeAt = (px: number, py: number): string | null => {
    if (laid.value === null) return null;
    const [x, y] = camera.current.toWorld(px, py);
    const hit = graph.nodes.find((node, place) => {
      const { width, height } = sizeOf(node);
      return Math.abs(laid.value!.x[place]! - x) <= width / 2 && Math.abs(laid.value!.y[place]! - y) <= height / 2;
    });
    return hit?.id ?? null;
  };
  const press = (event: PointerEvent) => {
    const element = canvas.current!;
    element.setPointerCapture(event.pointerId);
    let [x, y, moved] = [event.offsetX, event.offsetY, 0];
    const move = (next: PointerEvent) => {
      camera.current.x += next.offsetX - x;
      camera.current.y += next.offsetY - y;
      moved += Math.abs(next.offsetX - x) + Math.abs(next.offsetY - y);
      [x, y] = [next.offsetX, next.offsetY];
      draw.current();
    };
    const release = (next: PointerEvent) => {
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerup", release);
      if (moved < 4) setSelected(nodeAt(next.offsetX, next.offsetY));
    };
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", release);
  };
  const fit = () => {
    if (laid.value === null || canvas.current === null) return;
    camera.current.fit(laid.value.width, laid.value.height, canvas.current.clientWidth, canvas.current.clientHeight);
    draw.current();
  };
  const zoom = (factor: number) => {
    const { clientWidth, clientHeight } = canvas.current!;
    camera.current.zoom(factor, clientWidth / 2, clientHeight / 2);
    draw.current();
  };
  const select = (id: string | undefined) => {
    if (id === undefined) return;
    setSelected(id);
    reveal(id);
  };
  const keys: Record<string, () => void> = {
    ArrowUp: () => select(selected === null ? graph.nodes[0]?.id : edges.find(([, to]) => to === selected)?.[0]),
    ArrowDown: () => select(selected === null ? graph.nodes[0]?.id : edges.find(([from]) => from === selected)?.[1]),
    ArrowLeft: () => select(graph.nodes[Math.max(0, (places.get(selected ?? "") ?? 1) - 1)]?.id),
    ArrowRight: () => select(graph.nodes[(places.get(selected ?? "") ?? -1) + 1]?.id),
    "+": () => zoom(1.25),
    "-": () => zoom(0.8),
    "0": fit,
    Enter: () => selected !== null && onOpen?.(selected),
  };
  const keydown = (event: KeyboardEvent) => {
    const run = keys[event.key];
    if (run === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    run();
  };
  const node = selected === null ? undefined : graph.nodes[places.get(selected) ?? -1];
  return (
    <div class="graph">
      <div class="code-bar">
        <span class="muted">
          {counted(graph.nodes.length, "node")}, {counted(edges.length, "edge")}
          {leftOut > 0 && `, ${count(leftOut)} left out`}
        </span>
        <Filter value={filter} onInput={setFilter} label="Find a node" />
        {found !== null && <span class="muted">{counted(found.size, "match").replace(/matchs$/, "matches")}</span>}
        <span class="push" />
        <button type="button" class="small" onClick={() => zoom(0.8)} aria-label="Zoom out">−</button>
        <button type="button" class="small" onClick={() => zoom(1.25)} aria-label="Zoom in">+</button>
        <button type="button" class="small" onClick={fit}>Fit</button>
      </div>
      {laid.value === null && <Waiting loaded={laid} what="Laying out" />}
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={`${label}: ${counted(graph.nodes.length, "node")}. Arrow keys select, plus and minus zoom, 0 fits, Enter opens.`}
        data-laid={laid.value === null ? undefined : "yes"}
        onPointerDown={press}
        onDblClick={() => selected !== null && onOpen?.(selected)}
        onKeyDown={keydown}
      />
      {node !== undefined && (
        <div class="graph-info" role="status">
          <b>{node.title}</b> <span>{node.detail}</span>
          <div class="muted">{node.more}</div>
          {onOpen !== undefined && (
            <button type="button" class="small" onClick={() => onOpen(node.id)}>Open</button>
          )}
          {info?.(node.id)}
        </div>
      )}
    </div>
  );
}
