/** Drawing a laid-out graph: what is out of sight is skipped, what is too small to read is a plain box. */
import { hues, palette } from "../theme";
import type { Layout } from "../worker/messages";
import type { Camera } from "./camera";
import { clipped, prepared } from "./camera";
import { type DrawnGraph, sizeOf } from "./graph";

export interface Drawing {
  graph: DrawnGraph;
  edges: DrawnGraph["edges"];
  places: Map<string, number>;
  layout: Layout;
  camera: Camera;
  selected: string | null;
  marked?: Set<string> | undefined;
  only?: { ids: Set<string>; tone: "good" | "bad" } | undefined;
  found: Set<string> | null;
}

const READABLE = 0.45;

export function drawGraph(canvas: HTMLCanvasElement, drawing: Drawing): void {
  const { camera } = drawing;
  const context = prepared(canvas);
  context.translate(camera.x, camera.y);
  context.scale(camera.scale, camera.scale);
  const [left, top] = camera.toWorld(0, 0);
  const [right, bottom] = camera.toWorld(canvas.clientWidth, canvas.clientHeight);
  const seen = (x: number, y: number) => x > left - 200 && x < right + 200 && y > top - 80 && y < bottom + 80;
  drawEdges(context, drawing, seen);
  drawNodes(context, drawing, seen);
}

type Seen = (x: number, y: number) => boolean;

function drawEdges(context: CanvasRenderingContext2D, drawing: Drawing, seen: Seen): void {
  const { edges, layout, camera, selected, places } = drawing;
  const { edge, accent } = palette("edge", "accent");
  const arrows = camera.scale > 0.3;
  edges.forEach(([from, to], place) => {
    const bends = layout.bends[place]!;
    const last = bends.length - 2;
    const [a, b] = [places.get(from)!, places.get(to)!];
    if (!seen(layout.x[a]!, layout.y[a]!) && !seen(layout.x[b]!, layout.y[b]!)) return;
    const about = selected === from || selected === to;
    context.strokeStyle = context.fillStyle = about ? accent : edge;
    context.lineWidth = about ? 2 : 1;
    context.beginPath();
    context.moveTo(bends[0]!, bends[1]!);
    // Through the midpoints of the bends: a curve without kinks.
    for (let point = 2; point < last; point += 2) {
      const [x, y] = [bends[point]!, bends[point + 1]!];
      context.quadraticCurveTo(x, y, (x + bends[point + 2]!) / 2, (y + bends[point + 3]!) / 2);
    }
    context.lineTo(bends[last]!, bends[last + 1]!);
    context.stroke();
    if (arrows) {
      const angle = Math.atan2(bends[last + 1]! - bends[last - 1]!, bends[last]! - bends[last - 2]!);
      context.save();
      context.translate(bends[last]!, bends[last + 1]!);
      context.rotate(angle);
      context.beginPath();
      context.moveTo(0, 0);
      context.lineTo(-7, -3.5);
      context.lineTo(-7, 3.5);
      context.fill();
      context.restore();
    }
  });
}

function drawNodes(context: CanvasRenderingContext2D, drawing: Drawing, seen: Seen): void {
  const { graph, layout, camera, selected, marked, only, found } = drawing;
  const shades = hues();
  const colours = palette("panel", "text", "muted", "accent", "good", "bad", "warn");
  const family = getComputedStyle(document.body).getPropertyValue("--mono") || "monospace";
  const readable = camera.scale > READABLE;
  context.textBaseline = "middle";
  graph.nodes.forEach((node, place) => {
    const [x, y] = [layout.x[place]!, layout.y[place]!];
    if (!seen(x, y)) return;
    const { width, height } = sizeOf(node);
    const hue = shades[node.hue % shades.length]!;
    context.globalAlpha = found !== null && !found.has(node.id) ? 0.25 : 1;
    context.beginPath();
    context.roundRect(x - width / 2, y - height / 2, width, height, 4);
    context.fillStyle = readable ? colours.panel : hue;
    context.fill();
    const ring = selected === node.id ? colours.accent : marked?.has(node.id) ? colours.warn : only?.ids.has(node.id) ? colours[only.tone] : null;
    context.strokeStyle = ring ?? hue;
    context.lineWidth = ring === null ? 1 : 3;
    context.stroke();
    if (readable) {
      context.fillStyle = hue;
      context.fillRect(x - width / 2, y - height / 2 + 3, 3, height - 6);
      context.fillStyle = colours.text;
      context.font = `600 11px ${family}`;
      context.fillText(clipped(node.title, 40), x - width / 2 + 10, node.detail ? y - 8 : y + 1);
      if (node.detail) {
        context.fillStyle = colours.muted;
        context.font = `11px ${family}`;
        context.fillText(clipped(node.detail, 40), x - width / 2 + 10, y + 9);
      }
    }
  });
  context.globalAlpha = 1;
}
