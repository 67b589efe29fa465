/** Asking the worker: one promise for each question. */
import type { Answer, Request } from "./worker/messages";
import PageWorker from "./worker/worker?worker&inline";

interface Waiting {
  resolve: (answer: never) => void;
  reject: (problem: Error) => void;
}

let worker: Worker | null = null;
let asked = 0;
const waiting = new Map<number, Waiting>();

function started(): Worker {
  worker = new PageWorker();
  worker.onmessage = ({ data }: MessageEvent<{ id: number; answer?: never; problem?: string }>) => {
    const asker = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.problem !== undefined) asker?.reject(new Error(data.problem));
    else asker?.resolve(data.answer as never);
  };
  worker.onerror = (event) => {
    for (const asker of waiting.values()) asker.reject(new Error(`the page's worker failed: ${event.message}`));
    waiting.clear();
  };
  return worker;
}

export function ask<R extends Request>(request: R): Promise<Answer<R>> {
  return new Promise((resolve, reject) => {
    const id = ++asked;
    waiting.set(id, { resolve: resolve as (answer: never) => void, reject });
    (worker ?? started()).postMessage({ id, request });
  });
}
