/** The keys that hold in the view that is shown. */
import { useEffect, useRef } from "preact/hooks";
import { bindings, shown, useKeys } from "../keys";

export function Help({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const taken = bindings();
  useKeys([{ keys: ["Escape"], does: "close", run: close }]);
  return (
    <dialog ref={dialog} class="help" aria-label="Keys" onClose={close} onClick={(event) => event.target === dialog.current && close()}>
      <h2>Keys</h2>
      <dl>
        {taken.map(({ keys, does }) => (
          <div key={does}>
            <dt>{keys.map((key) => <kbd key={key}>{shown(key)}</kbd>)}</dt>
            <dd>{does}</dd>
          </div>
        ))}
        <div>
          <dt><kbd>Tab</kbd></dt>
          <dd>to the next control; in a graph arrows select, + and − zoom, 0 fits, Enter opens</dd>
        </div>
      </dl>
      <button type="button" onClick={close}>Close</button>
    </dialog>
  );
}
