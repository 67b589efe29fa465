/** One level of a kernel's code, beside another where that helps. */
import { useDocument } from "../data";
import type { KernelEntry, LevelDocument, Program } from "../documents";
import { useKeys } from "../keys";
import { Code } from "../parts/code";
import { levelName } from "../parts/side";
import { Header, Waiting } from "../parts/small";
import { go, href, type Route, withQuery } from "../route";
import { useKernelKeys } from "./kernel";

interface LevelProps {
  program: Program;
  kernel: KernelEntry;
  route: Route;
  level: string;
}

export function LevelView({ program, kernel, route, level }: LevelProps) {
  useKernelKeys({ program, kernel }, `/level/${level}`);
  const place = kernel.levels.indexOf(level);
  const move = (by: number) => {
    const next = kernel.levels[place + by];
    if (next !== undefined) go(href(`${kernel.id}/level/${next}`));
  };
  useKeys([
    { keys: ["n", "ArrowRight"], does: "next level", run: () => move(1) },
    { keys: ["p", "ArrowLeft"], does: "level before", run: () => move(-1) },
  ]);
  const beside = route.query["beside"] ?? "";
  return (
    <section class="view">
      <Header title={levelName(level)} sub={<a class="mono" href={href(kernel.id)}>{kernel.name}</a>}>
        <label>
          beside{" "}
          <select value={beside} onChange={(event) => go(withQuery(route, { beside: event.currentTarget.value }), true)}>
            <option value="">nothing</option>
            {kernel.levels.filter((other) => other !== level).map((other) => (
              <option key={other} value={other}>{levelName(other)}</option>
            ))}
          </select>
        </label>
      </Header>
      <div class={beside ? "columns" : "columns one"}>
        <Level kernel={kernel} level={level} />
        {beside && <Level kernel={kernel} level={beside} />}
      </div>
    </section>
  );
}

function Level({ kernel, level }: { kernel: KernelEntry; level: string }) {
  const code = useDocument<LevelDocument>(`${kernel.id}/level/${level}.json`);
  if (code.value === null) return <Waiting loaded={code} />;
  return <Code text={code.value.text} language={code.value.language ?? level} label={`${levelName(level)} of ${kernel.name}`} />;
}
