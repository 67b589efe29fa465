/** Boxes on a plane that is zoomed along one axis: a memory plan, a timeline. */
import { useEffect, useRef, useState } from "preact/hooks";
import { hues, palette, useThemeVersion } from "../theme";
import { prepared } from "./camera";

export interface Box {
  x: number;
  width: number;
  /** Fractions of the height, from the top. */
  y: number;
  height: number;
  hue: number;
  text: string;
}

interface PlaneProps {
  boxes: Box[];
  /** From 0 to this along the zoomed axis. */
  extent: number;
  label: string;
  tick: (value: number) => string;
  /** A line under each row, with its name at the left. */
  rows?: { y: number; name: string }[];
  /** The axis counts: no ticks between whole numbers. */
  counts?: boolean;
  chosen: number | null;
  onChoose: (place: number | null) => void;
  describe: (place: number) => string;
  /** In pixels; else it takes its share of the view. */
  height?: number;
}

const AXIS = 20;
const FULL = { from: 0, span: 1 };

export function Plane({ boxes, extent, label, tick, rows = [], counts = false, chosen, onChoose, describe, height: fixed }: PlaneProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [view, setView] = useState(FULL);
  const [hover, setHover] = useState<{ place: number; x: number; y: number } | null>(null);
  const [size, setSize] = useState(0);
  const theme = useThemeVersion();
  useEffect(() => setView(FULL), [boxes]);

  useEffect(() => {
    const element = canvas.current!;
    const context = prepared(element);
    const { clientWidth: width, clientHeight: full } = element;
    const height = full - AXIS;
    const shades = hues();
    const colours = palette("muted", "line", "accent", "panel");
    const toPixel = (value: number) => ((value / extent - view.from) / view.span) * width;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    drawAxis(context, width, height, (view.from * extent), (view.from + view.span) * extent, tick, counts, colours);
    const family = getComputedStyle(document.body).getPropertyValue("--mono") || "monospace";
    context.font = `11px ${family}`;
    let drawn = { y: -1, right: -1 };
    boxes.forEach((box, place) => {
      const left = toPixel(box.x);
      const breadth = Math.max(1, toPixel(box.x + box.width) - left - 0.5);
      if (left > width || left + breadth < 0) return;
      // Of what falls into one pixel, the first is enough.
      if (drawn.y === box.y && left + breadth <= drawn.right && chosen !== place) return;
      drawn = { y: box.y, right: Math.ceil(left + breadth) };
      const top = box.y * height;
      const tall = Math.max(1, box.height * height - 1);
      context.globalAlpha = chosen === null || chosen === place ? 0.85 : 0.45;
      context.fillStyle = shades[box.hue % shades.length]!;
      context.fillRect(left, top, breadth, tall);
      context.globalAlpha = 1;
      if (chosen === place) {
        context.strokeStyle = colours.accent;
        context.lineWidth = 2;
        context.strokeRect(left, top, breadth, tall);
      }
      const room = Math.floor((breadth - 8) / 6.7);
      if (room > 4 && tall > 12) {
        context.fillStyle = colours.panel;
        context.fillText(box.text.slice(0, room), Math.max(left, 0) + 4, top + tall / 2);
      }
    });
    context.font = "11px system-ui, sans-serif";
    for (const { y, name } of rows) {
      context.fillStyle = colours.muted;
      context.fillText(name, 4, y * height + 8);
    }
  }, [boxes, extent, view, chosen, theme, size, rows]);

  const limited = (from: number, span: number) => {
    const kept = Math.min(1, Math.max(1e-6, span));
    setView({ span: kept, from: Math.min(1 - kept, Math.max(0, from)) });
  };
  const zoom = (factor: number, about = 0.5) => limited(view.from + about * view.span * (1 - factor), view.span * factor);
  const latest = useRef(zoom);
  latest.current = zoom;
  useEffect(() => {
    const element = canvas.current!;
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      latest.current(Math.exp(event.deltaY * 0.0015), event.offsetX / element.clientWidth);
    };
    element.addEventListener("wheel", wheel, { passive: false });
    const observer = new ResizeObserver(() => setSize(element.clientWidth * 1e5 + element.clientHeight));
    observer.observe(element);
    return () => {
      element.removeEventListener("wheel", wheel);
      observer.disconnect();
    };
  }, []);

  const at = (event: { offsetX: number; offsetY: number }): number => {
    const { clientWidth, clientHeight } = canvas.current!;
    const x = (view.from + (event.offsetX / clientWidth) * view.span) * extent;
    const y = event.offsetY / (clientHeight - AXIS);
    const slack = (view.span * extent) / clientWidth;
    // The last drawn lies on top.
    return boxes.findLastIndex((box) => x >= box.x - slack && x <= box.x + box.width + slack && y >= box.y && y <= box.y + box.height);
  };
  const drag = (event: PointerEvent) => {
    const element = canvas.current!;
    element.setPointerCapture(event.pointerId);
    const { from, span } = view;
    const start = event.offsetX;
    let moved = false;
    const move = (next: PointerEvent) => {
      moved ||= Math.abs(next.offsetX - start) > 3;
      if (moved) limited(from - ((next.offsetX - start) / element.clientWidth) * span, span);
    };
    const release = (next: PointerEvent) => {
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerup", release);
      if (!moved) {
        const place = at(next);
        onChoose(place < 0 ? null : place);
      }
    };
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", release);
  };
  const choose = (place: number) => {
    const kept = Math.min(boxes.length - 1, Math.max(0, place));
    onChoose(kept);
    const box = boxes[kept];
    if (box === undefined) return;
    const middle = (box.x + box.width / 2) / extent;
    if (middle < view.from || middle > view.from + view.span) limited(middle - view.span / 2, view.span);
  };
  const keys: Record<string, () => void> = {
    ArrowRight: () => choose((chosen ?? -1) + 1),
    ArrowLeft: () => choose((chosen ?? 1) - 1),
    "+": () => zoom(0.7),
    "-": () => zoom(1 / 0.7),
    "0": () => setView(FULL),
    Escape: () => onChoose(null),
  };
  const keydown = (event: KeyboardEvent) => {
    const run = keys[event.key];
    if (run === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    run();
  };
  return (
    <div class={fixed === undefined ? "plane" : "plane low"} style={{ height: fixed === undefined ? undefined : `${fixed}px` }}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={`${label}. Arrow keys choose, plus and minus zoom, 0 shows all.`}
        onPointerDown={drag}
        onPointerMove={(event) => {
          const place = at(event);
          setHover(place < 0 ? null : { place, x: event.offsetX, y: event.offsetY });
        }}
        onPointerLeave={() => setHover(null)}
        onKeyDown={keydown}
      />
      {hover !== null && hover.place < boxes.length && (
        <div class={`tip ${hover.x > (canvas.current?.clientWidth ?? 0) / 2 ? "left" : ""}`} style={{ transform: `translate(${hover.x}px, ${hover.y}px)` }}>
          <span>{describe(hover.place)}</span>
        </div>
      )}
    </div>
  );
}

function drawAxis(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  from: number,
  to: number,
  tick: (value: number) => string,
  counts: boolean,
  colours: { muted: string; line: string },
): void {
  const rough = (to - from) / Math.max(2, width / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = Math.max(counts ? 1 : 0, [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough) ?? rough);
  for (let value = Math.ceil(from / unit) * unit; value <= to; value += unit) {
    const x = Math.round(((value - from) / (to - from)) * width) + 0.5;
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, height + 4);
    context.stroke();
    context.fillStyle = colours.muted;
    context.fillText(tick(value), x + 3, height + AXIS / 2 + 1);
  }
}
