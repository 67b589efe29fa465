/** Colours for code: one pattern per language, each line by itself. */

const NUMBER = String.raw`\b(?:0x[0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?[fFuUlL]*)\b`;
const STRING = String.raw`"(?:[^"\\]|\\.)*"`;

interface Language {
  comment: string;
  keyword: string;
  type: string;
  name: string;
}

const C: Language = {
  comment: String.raw`//.*$|/\*.*?\*/|^\s*#.*$`,
  keyword: String.raw`\b(?:for|if|else|while|return|const|static|void|extern|struct|inline|restrict|__global__|__shared__|__device__|__restrict__|__launch_bounds__|do|break|continue|typedef|sizeof)\b`,
  type: String.raw`\b(?:float[24]?|double|int|char|long|unsigned|signed|short|half2?|bool|size_t|u?int(?:8|16|32|64)_t|__half2?|__nv_bfloat16|_Float16)\b`,
  name: String.raw`\b[a-zA-Z_]\w*(?=\()`,
};
const ASSEMBLY: Language = {
  comment: String.raw`[;#].*$|//.*$|/\*.*?\*/`,
  keyword: String.raw`^\s*(?:@!?U?P\w+\s+)?[a-zA-Z][\w.]*(?![\w.]*:)(?=\s|$|;)`,
  type: String.raw`^\s*\.[\w.]+`,
  name: String.raw`%[\w.]+|\bU?R\d+\b|^\s*[\w.$]+:`,
};
const SSA: Language = {
  comment: String.raw`;.*$|//.*$`,
  keyword: String.raw`\b(?:define|declare|br|ret|phi|load|store|getelementptr|call|f?add|f?sub|f?mul|fdiv|[us]div|icmp|fcmp|select|bitcast|inbounds|nuw|nsw|label|attributes|target|for|if|else|yield|return|func|loop|while)\b`,
  type: String.raw`\b(?:i\d+|f\d+|bf16|half|float|double|ptr|void|index|bool|u?int\d*|tensor<[^>]*>)\b|<\d+ x \w+>`,
  name: String.raw`[%@#$][\w.]+`,
};

/** Definitions of ours: the op stands behind the equals sign, or first where nothing is defined. */
const OPS: Language = { ...SSA, keyword: String.raw`(?<=^\s*|= )[a-z_][\w.]*(?=[\s(]|$)`, comment: String.raw`//.*$|#.*$` };

const LANGUAGES: Record<string, Language> = { uop: OPS, ptir: OPS, llir: OPS, schedule: OPS, c: C, cuda: C, asm: ASSEMBLY, ptx: ASSEMBLY, sass: ASSEMBLY, llvm: SSA };
const compiled = new Map<Language, RegExp>();

function patternOf(language: Language): RegExp {
  let pattern = compiled.get(language);
  if (pattern === undefined) {
    const { comment, keyword, type, name } = language;
    pattern = new RegExp(
      `(?<comment>${comment})|(?<string>${STRING})|(?<type>${type})|(?<keyword>${keyword})|(?<name>${name})|(?<number>${NUMBER})`,
      "g",
    );
    compiled.set(language, pattern);
  }
  return pattern;
}

/** Longer lines are shown plain: colouring them would take longer than reading them. */
const LONGEST = 2000;

export function Highlighted({ text, language = "" }: { text: string; language?: string }) {
  if (text.length > LONGEST) return <>{text}</>;
  const parts = [];
  let done = 0;
  for (const match of text.matchAll(patternOf(LANGUAGES[language] ?? SSA))) {
    const kind = Object.entries(match.groups ?? {}).find(([, value]) => value !== undefined)?.[0];
    if (match[0] === "" || kind === undefined) continue;
    if (match.index > done) parts.push(text.slice(done, match.index));
    parts.push(<span class={`t-${kind}`}>{match[0]}</span>);
    done = match.index + match[0].length;
  }
  parts.push(text.slice(done));
  return <>{parts}</>;
}
