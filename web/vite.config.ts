/** One page, one script, one style sheet: what the Python package serves, and what an export inlines. */
import { readdirSync, readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

/** The libraries that end up in the bundle. */
const BUNDLED = ["@dagrejs/dagre", "@dagrejs/graphlib", "diff", "preact"];

function notices(): string {
  const texts = BUNDLED.map((name) => {
    const folder = `node_modules/${name}`;
    const licence = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
    if (licence === undefined) throw new Error(`${name} comes without a licence text`);
    const { version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8")) as { version: string };
    return `${name} ${version}\n\n${readFileSync(`${folder}/${licence}`, "utf8").trim()}\n`;
  });
  return `The page of \`planish viz\` contains these libraries.\n\n${texts.join(`\n${"-".repeat(72)}\n\n`)}`;
}

/** The page as plain tags that an export can find and replace, and the licences beside it. */
const plain: Plugin = {
  name: "planish-plain-page",
  enforce: "post",
  transformIndexHtml: (html) => html.replaceAll(" crossorigin", ""),
  generateBundle() {
    this.emitFile({ type: "asset", fileName: "NOTICES.txt", source: notices() });
  },
};

export default defineConfig({
  base: "./",
  publicDir: false,
  plugins: [plain],
  build: {
    outDir: "../planish/viz/page",
    emptyOutDir: true,
    target: ["chrome123", "firefox128", "safari17.5"],
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        entryFileNames: "page.js",
        assetFileNames: (asset) => (asset.names.some((name) => name.endsWith(".css")) ? "page.css" : "[name][extname]"),
        codeSplitting: false,
      },
    },
  },
});
