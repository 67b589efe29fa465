/** Layered layout of a graph: by dagre, or by ranks alone where a graph is too large for it. */
import { graphlib, layout as dagre } from "@dagrejs/dagre";
import type { Layout, LayoutRequest } from "./messages";

/** Network simplex takes about n², so that larger graphs get the plain ranks, and the largest no crossing reduction. */
const EXACT_RANKS = 150;
const REDUCE_CROSSINGS = 800;
const GAP = 24;

export function layOut(request: LayoutRequest): Layout {
  return request.nodes.length > REDUCE_CROSSINGS ? byRanks(request) : byDagre(request);
}

function byDagre({ nodes, edges, direction }: LayoutRequest): Layout {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({
    rankdir: direction,
    nodesep: GAP,
    ranksep: 32,
    ranker: nodes.length > EXACT_RANKS ? "longest-path" : "network-simplex",
  });
  for (const { id, width, height } of nodes) graph.setNode(id, { width, height });
  edges.forEach(([from, to], slot) => graph.setEdge(from, to, {}, String(slot)));
  dagre(graph);
  const placed = nodes.map(({ id }) => graph.node(id) as { x: number; y: number });
  const size = graph.graph() as { width?: number; height?: number };
  return {
    x: Float32Array.from(placed, (node) => node.x),
    y: Float32Array.from(placed, (node) => node.y),
    bends: edges.map(([from, to], slot) => {
      const points = (graph.edge(from, to, String(slot)) as { points: { x: number; y: number }[] }).points;
      return Float32Array.from(points.flatMap(({ x, y }) => [x, y]));
    }),
    width: size.width ?? 0,
    height: size.height ?? 0,
  };
}

/** Each node one rank below its lowest producer; within a rank, two sweeps towards the mean of the producers. */
function byRanks({ nodes, edges, direction }: LayoutRequest): Layout {
  const at = new Map(nodes.map(({ id }, place) => [id, place]));
  const links = edges.map(([from, to]) => [at.get(from)!, at.get(to)!] as const);
  const producers: number[][] = nodes.map(() => []);
  const waiting = new Int32Array(nodes.length);
  const consumers: number[][] = nodes.map(() => []);
  for (const [from, to] of links) {
    producers[to]!.push(from);
    consumers[from]!.push(to);
    waiting[to]!++;
  }
  const rank = new Int32Array(nodes.length);
  const settled = new Uint8Array(nodes.length);
  const settle = (first: number) => {
    const ready = [first];
    for (let node = ready.pop(); node !== undefined; node = ready.pop()) {
      settled[node] = 1;
      for (const consumer of consumers[node]!) {
        // A way back to what is above, as of a kernel that runs again, moves nothing.
        if (settled[consumer] === 1) continue;
        rank[consumer] = Math.max(rank[consumer]!, rank[node]! + 1);
        if (--waiting[consumer]! === 0) ready.push(consumer);
      }
    }
  };
  waiting.forEach((producersLeft, node) => producersLeft === 0 && settled[node] === 0 && settle(node));
  // What waits for itself begins where the graph names it first.
  settled.forEach((done, node) => done === 0 && settle(node));
  const ranks: number[][] = [];
  rank.forEach((level, node) => (ranks[level] ??= []).push(node));
  const across = new Float32Array(nodes.length);
  const breadth = (node: number) => (direction === "TB" ? nodes[node]!.width : nodes[node]!.height) + GAP;
  const spread = (level: number[]) => {
    let place = -level.reduce((sum, node) => sum + breadth(node), 0) / 2;
    for (const node of level) {
      across[node] = place + breadth(node) / 2;
      place += breadth(node);
    }
  };
  ranks.forEach(spread);
  const mean = (list: number[], own: number) =>
    list.length ? list.reduce((sum, node) => sum + across[node]!, 0) / list.length : across[own]!;
  const sweep = (level: number[], neighbours: number[][]) => {
    const wish = new Map(level.map((node) => [node, mean(neighbours[node]!, node)]));
    level.sort((a, b) => wish.get(a)! - wish.get(b)!);
    spread(level);
  };
  for (let round = 0; round < 2; round++) {
    ranks.forEach((level) => sweep(level, producers));
    [...ranks].reverse().forEach((level) => sweep(level, consumers));
  }
  const depth = Float32Array.from(rank, (level) => level * (direction === "TB" ? 72 : 260) + 30);
  const least = across.reduce((low, value) => Math.min(low, value), 0);
  const shifted = across.map((value) => value - least + 120);
  const [x, y] = direction === "TB" ? [shifted, depth] : [depth, shifted];
  // From border to border; what passes other ranks goes round them.
  const bend = (from: number, to: number): Float32Array => {
    const ranksPassed = rank[to]! - rank[from]! - 1;
    const aside = ranksPassed > 0 ? 130 + 6 * (ranksPassed % 12) : 0;
    const [dx, dy] = direction === "TB" ? [0, nodes[from]!.height / 2] : [nodes[from]!.width / 2, 0];
    const [ex, ey] = direction === "TB" ? [0, nodes[to]!.height / 2] : [nodes[to]!.width / 2, 0];
    const [ax, ay, bx, by] = [x[from]! + dx, y[from]! + dy, x[to]! - ex, y[to]! - ey];
    const [mx, my] = direction === "TB" ? [Math.max(ax, bx) + aside, (ay + by) / 2] : [(ax + bx) / 2, Math.max(ay, by) + aside];
    return aside > 0 ? Float32Array.of(ax, ay, mx, my, bx, by) : Float32Array.of(ax, ay, bx, by);
  };
  const most = (values: Float32Array) => values.reduce((high, value) => Math.max(high, value), 0) + 120;
  return {
    x,
    y,
    bends: links.map(([from, to]) => bend(from, to)),
    width: most(x),
    height: most(y),
  };
}
