/** Where a canvas looks: pan and zoom by pointer, wheel and keys. */

export class Camera {
  x = 0;
  y = 0;
  scale = 1;

  constructor(private readonly least = 0.02, private readonly most = 3) {}

  /** Shows all of a picture, never larger than life. */
  fit(width: number, height: number, viewWidth: number, viewHeight: number): void {
    const margin = 24;
    const scale = Math.min((viewWidth - margin) / Math.max(width, 1), (viewHeight - margin) / Math.max(height, 1), 1);
    this.scale = Math.max(this.least, scale);
    this.x = (viewWidth - width * this.scale) / 2;
    this.y = (viewHeight - height * this.scale) / 2;
  }

  /** Shows all where that can be read, else a part of it at a size that can. */
  open(width: number, height: number, viewWidth: number, viewHeight: number): void {
    this.fit(width, height, viewWidth, viewHeight);
    const readable = 0.6;
    if (this.scale >= readable) return;
    this.scale = readable;
    this.x = (viewWidth - width * readable) / 2;
    this.y = (viewHeight - height * readable) / 2;
  }

  /** Where the picture is larger than the view: its first rank at the edge, its source in the middle. */
  toSource(direction: "TB" | "LR", across: number, size: { width: number; height: number }, viewWidth: number, viewHeight: number): void {
    const wide = size.width * this.scale > viewWidth;
    const tall = size.height * this.scale > viewHeight;
    if (wide) this.x = direction === "LR" ? 16 : viewWidth / 2 - across * this.scale;
    if (tall) this.y = direction === "TB" ? 16 : viewHeight / 2 - across * this.scale;
  }

  zoom(factor: number, aboutX: number, aboutY: number): void {
    const scale = Math.min(this.most, Math.max(this.least, this.scale * factor));
    this.x = aboutX - ((aboutX - this.x) * scale) / this.scale;
    this.y = aboutY - ((aboutY - this.y) * scale) / this.scale;
    this.scale = scale;
  }

  /** Moves as little as brings a point into sight. */
  reveal(x: number, y: number, viewWidth: number, viewHeight: number): void {
    const margin = 80;
    const [px, py] = [x * this.scale + this.x, y * this.scale + this.y];
    if (px < margin || px > viewWidth - margin) this.x = viewWidth / 2 - x * this.scale;
    if (py < margin || py > viewHeight - margin) this.y = viewHeight / 2 - y * this.scale;
  }

  toWorld(px: number, py: number): [number, number] {
    return [(px - this.x) / this.scale, (py - this.y) / this.scale];
  }
}

/** Sizes a canvas to its box in device pixels and returns its context, in CSS pixels. */
export function prepared(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
  const { clientWidth: width, clientHeight: height } = canvas;
  const density = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * density) || canvas.height !== Math.round(height * density)) {
    canvas.width = Math.round(width * density);
    canvas.height = Math.round(height * density);
  }
  const context = canvas.getContext("2d")!;
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** A text cut to a width, with a dot-dot-dot. */
export function clipped(text: string, characters: number): string {
  return text.length <= characters ? text : `${text.slice(0, Math.max(1, characters - 1))}…`;
}
