/** Opens the recording and shows it. */
import { render } from "preact";
import { App } from "./app";
import { RecordingContext } from "./data";
import { type Index, named, VERSION } from "./documents";
import { listen } from "./keys";
import { openSource } from "./source";
import { applyTheme, storedTheme } from "./theme";

async function open(): Promise<void> {
  const page = document.getElementById("page")!;
  applyTheme(storedTheme());
  const source = openSource();
  try {
    const index = named(await source.get<Index>("index.json"));
    if (index.version !== VERSION) {
      throw new Error(`The recording is of version ${index.version} and this page reads version ${VERSION}: open it with the planish that made it.`);
    }
    document.title = index.title ? `${index.title} · planish viz` : "planish viz";
    listen();
    page.replaceChildren();
    render(
      <RecordingContext.Provider value={{ source, index }}>
        <App />
      </RecordingContext.Provider>,
      page,
    );
  } catch (problem) {
    page.replaceChildren();
    render(<p class="notice bad" role="alert">{problem instanceof Error ? problem.message : String(problem)}</p>, page);
  }
}

void open();
