/** All that a search finds. */
import { useRecording, usePromise } from "../data";
import { counted } from "../format";
import { resultHref, searchEverything } from "../parts/search_box";
import { Empty, Header, Waiting } from "../parts/small";
import { VirtualList } from "../parts/virtual";
import type { Route } from "../route";

const LIMIT = 5000;

export function SearchView({ route }: { route: Route }) {
  const recording = useRecording();
  const query = route.query["q"] ?? "";
  const found = usePromise(() => searchEverything(recording, query, LIMIT), query.trim() === "" ? null : query);
  if (query.trim() === "") return <Empty>Type into the search field; / moves there.</Empty>;
  if (found.value === null) return <Waiting loaded={found} what="Searching" />;
  const { results, total } = found.value;
  return (
    <section class="view">
      <Header title={`“${query}”`} sub={counted(total, "result")} />
      <VirtualList
        className="found-list"
        count={results.length}
        rowHeight={28}
        label="Results"
        row={(place) => {
          const [kind, id, text] = results[place]!;
          return (
            <a class="found-row" href={resultHref(id)}>
              <span class="kind">{kind}</span>
              <span class="found">{text}</span>
              <span class="muted">{id}</span>
            </a>
          );
        }}
      />
    </section>
  );
}
