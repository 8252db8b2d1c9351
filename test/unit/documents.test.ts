/** Keeps the documents readable: READMEs stay short and plain, and every link leads somewhere. */
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";
import { table } from "../../triggers/table.ts";

const root = join(import.meta.dirname, "../..");
const linesOfReadme = 150;
const wordsPerSentence = 35;
/** The average for a paragraph of several sentences. A single sentence only has its own limit. */
const wordsOnAverage = 18;
/** A paragraph with at least this many sentences needs one with at least this many words, because full stops join nothing. */
const telegram = { sentences: 5, words: 8 };
const linesOfScreen = 50;

const read = (path: string): string => readFileSync(join(root, path), "utf8");
const documents = globSync(["*.md", "{functions,triggers,knative,test}/**/*.md"], { cwd: root }).sort();

/** The text without blocks of code, whatever their indent. */
function withoutCode(text: string): string {
  return text.replace(/^ *```[\s\S]*?^ *```$/gm, "");
}

/** The sentences of each paragraph, without tables and blocks of code. A heading and an item of a list are paragraphs. */
function paragraphsOf(text: string): string[][] {
  const prose = withoutCode(text).replace(/^\s*\|.*$/gm, "");
  const shown = prose.replace(/(\[[^\]]*\])\([^)]*\)/g, "$1").replace(/^#+ .*$/gm, "$&\n");
  const paragraphs = shown.split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )/);
  const sentencesOf = (paragraph: string) => paragraph.replace(/\s+/g, " ").split(/(?<=[.?!][*_)"`\]]*) /);
  const trimmed = paragraphs.map((paragraph) => sentencesOf(paragraph).map((sentence) => sentence.trim()));
  return trimmed.map((sentences) => sentences.filter(Boolean)).filter(({ length }) => length > 0);
}

/** Number of words: parts with a letter or a digit. */
const wordsIn = (sentence: string): number => sentence.split(" ").filter((word) => /[\p{L}\p{N}]/u.test(word)).length;

/** The fragments of the links to a document's headings, as GitHub makes them. */
function fragmentsOf(text: string): string[] {
  const seen = new Map<string, number>();
  return [...withoutCode(text).matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) => {
    const shown = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").trim();
    const name = shown
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_\- ]/gu, "")
      .replaceAll(" ", "-");
    const before = seen.get(name) ?? 0;
    seen.set(name, before + 1);
    return before === 0 ? name : `${name}-${before}`;
  });
}

/** The link targets of a document that are no URLs of other sites. */
function linksOf(text: string): string[] {
  const links = [...withoutCode(text).matchAll(/\[[^\]]*\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  return links.filter((target) => !/^[a-z]+:/.test(target));
}

/** Why a link leads nowhere; undefined if its file exists, and its heading if it names one. */
function lost(document: string, link: string): string | undefined {
  const [file = "", fragment] = link.split("#");
  const path = file === "" ? document : relative(root, join(root, dirname(document), file));
  if (path.startsWith("..") || !existsSync(join(root, path))) return `${document}: no file ${link}`;
  if (fragment === undefined) return undefined;
  return fragmentsOf(read(path)).includes(fragment) ? undefined : `${document}: no heading ${link}`;
}

test("the README has at most 150 lines", () => {
  const lines = read("README.md").trimEnd().split("\n").length;
  assert.ok(lines <= linesOfReadme, `${lines} lines`);
});

/** What makes a paragraph hard to read; nothing if it reads well. */
function hardships(sentences: readonly string[]): string[] {
  const lengths = sentences.map(wordsIn);
  const average = lengths.reduce((sum, words) => sum + words, 0) / lengths.length;
  const long = sentences.filter((sentence) => wordsIn(sentence) > wordsPerSentence);
  const found = long.map((sentence) => `more than ${wordsPerSentence} words: ${sentence}`);
  const start = `${sentences[0]} …`;
  if (lengths.length > 1 && average > wordsOnAverage) found.push(`${average.toFixed(1)} words on average: ${start}`);
  const isTelegram = lengths.length >= telegram.sentences && lengths.every((words) => words < telegram.words);
  return isTelegram ? [...found, `only short sentences: ${start}`] : found;
}

test("a document has no sentence above 35 words, no paragraph above 18 on average, and none of short sentences alone", () => {
  const paragraphs = documents.flatMap((path) => paragraphsOf(read(path)).map((sentences) => ({ path, sentences })));
  assert.ok(paragraphs.length > 400, `${paragraphs.length} paragraphs`);
  const hard = paragraphs.flatMap(({ path, sentences }) => hardships(sentences).map((why) => `${path}: ${why}`));
  assert.deepEqual(hard, []);
});

test("the test finds a long sentence, a long average and a telegram; one sentence alone has no average", () => {
  const sentence = (words: number) => `${"word ".repeat(words - 1)}end.`;
  const found = (...lengths: number[]) => hardships(lengths.map(sentence)).map((why) => why.split(":")[0]);
  assert.deepEqual(found(35), []);
  assert.deepEqual(found(36), ["more than 35 words"]);
  assert.deepEqual(found(18, 18), []);
  assert.deepEqual(found(18, 19), ["18.5 words on average"]);
  assert.deepEqual(found(7, 7, 7, 7), []);
  assert.deepEqual(found(7, 7, 7, 7, 7), ["only short sentences"]);
  assert.deepEqual(found(7, 7, 8, 7, 7), []);
});

test("every relative link of a document leads to a file, and to a heading if it names one", () => {
  const links = documents.flatMap((document) => linksOf(read(document)).map((link) => ({ document, link })));
  assert.ok(documents.length > 12 && links.length > 30, `${documents.length} documents, ${links.length} links`);
  assert.deepEqual(
    links.flatMap(({ document, link }) => lost(document, link) ?? []),
    [],
  );
});

/** Splits a document at its horizontal rule, into the part above and the part below. */
function screensOf(text: string): { readonly first: string; readonly rest: string } {
  const [first = "", ...rest] = text.split("\n---\n");
  return { first, rest: rest.join("\n---\n") };
}

/** The guards that tables of a document explain, each in a row of its own. */
function guardsExplained(text: string): string[] {
  const tables = [...text.matchAll(/^\| guard \|.*\n\|[ |-]+\n((?:\|.*\n)+)/gm)].map(([, rows = ""]) => rows);
  return tables.flatMap((rows) => [...rows.matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, guard = ""]) => guard));
}

test("the README of a function has promise, reads, guards and undo on one screen, and the rest below a line", () => {
  const readmes = globSync("functions/*/README.md", { cwd: root });
  assert.ok(readmes.length >= 4, readmes.join());
  for (const path of readmes) {
    const { first, rest } = screensOf(read(path));
    const lines = first.trimEnd().split("\n").length;
    assert.ok(lines <= linesOfScreen, `${path}: ${lines} lines above the line`);
    assert.notEqual(rest.trim(), "", `${path}: nothing is below a line`);
    const headings = [...first.matchAll(/^## (.+)$/gm)].map(([, heading = ""]) => heading).join("; ");
    assert.match(headings, /promise; What it (?:reads|refuses)\b.*; (?:The guards|Why it waits); To .*undo$/, path);
    const guards = guardsExplained(read(path));
    const definition = table.find(({ name }) => path === `functions/${name}/README.md`);
    // A function that a GET triggers never waits, and says so.
    const least = definition !== undefined && Object.keys(definition.guards).length === 0 ? 0 : 2;
    assert.ok(guards.length >= least, `${path} explains ${guards.length} guards`);
    const unnamed = guards.filter((guard) => !first.includes(`\`${guard}\``));
    assert.deepEqual(unnamed, [], `${path}: guards that are not above the line`);
  }
});

test("sentences end at stops, headings and items; tables, code and link targets do not count", () => {
  const text =
    '# A b\nC `d.e` f. *G h.* I\nj!\n\n- k\n- l (m.) n\n\n| o. | p |\n\n```sh\nq. r\n```\n\n[S](t.md#u) v.\n1. "w."\n';
  const expected = ["# A b", "C `d.e` f.", "*G h.*", "I j!", "- k", "- l (m.)", "n", "[S] v.", "1.", '"w."'];
  assert.deepEqual(paragraphsOf(text).flat(), expected);
  assert.equal(wordsIn('It takes 3 x `a b` - "well" …'), 7);
});

test("a link without its file or heading is lost, and a link in a block of code does not count", () => {
  assert.deepEqual(linksOf("[a](b.md) [c\nd](#e) [f](https://g.h)\n```\n[i](j)\n```\n"), ["b.md", "#e"]);
  assert.deepEqual(fragmentsOf("# A, `b` and c-d?\n## [E](f.md)\n```\n# g\n```\n## E\n"), ["a-b-and-c-d", "e", "e-1"]);
  assert.equal(lost("knative/README.md", "../README.md#install"), undefined);
  assert.equal(lost("knative/README.md", "#away-with-it"), undefined);
  assert.match(lost("knative/README.md", "README.txt") ?? "", /no file/);
  assert.match(lost("knative/README.md", "../../README.md") ?? "", /no file/);
  assert.match(lost("README.md", "knative/README.md#install") ?? "", /no heading/);
});

const questions = [
  "key",
  "kind of claim",
  "terms",
  "settle",
  "abandon and undo",
  "anchor",
  "which ledger",
  "guards",
  "checker",
  "rule that is removed",
];

test("the chapter about adding a function has a line for each question, and names only existing places", () => {
  const [, below = ""] = read("CONTRIBUTING.md").split("\n## To add a function\n");
  const [section = ""] = below.split("\n## ");
  const rows = [...section.matchAll(/^\| ([a-z ]+) \| .+\? ?.*\| .+ \|$/gm)].map(([, question]) => question);
  assert.deepEqual(rows, questions);
  const named = [...section.matchAll(/`((?:functions|triggers|test)\/[^`A-Z]*)`/g)].map(([, path = ""]) => path);
  assert.ok(named.length >= 10, named.join());
  assert.deepEqual(
    named.filter((path) => !existsSync(join(root, path))),
    [],
  );
});

const mostStops = 15;

/** A stop of a way in CONTRIBUTING: a file, and how an earlier stop leads there. */
interface Stop {
  readonly number: number;
  readonly file: string;
  /** The stop that knows this file; undefined for the first one. */
  readonly from: number | undefined;
  /** Files that hand this file over, in order from `file` to the stop `from`; empty if `from` imports it. */
  readonly over: readonly string[];
}

/** The table below a heading of CONTRIBUTING. */
function wayOf(text: string, heading: string): Stop[] {
  const [, below = ""] = text.split(`\n## ${heading}\n`);
  const [section = ""] = below.split("\n## ");
  return [...section.matchAll(/^\| (\d+) \| `([^`]+)` \|[^|]+\|([^|]*)\|$/gm)].map(
    ([, number, file = "", how = ""]) => {
      const [, imported, handed] = /^ (?:(\d+) imports it|handed to (\d+) by .+) $/.exec(how) ?? [];
      const over = [...how.matchAll(/`([^`]+)`/g)].map(([, path = ""]) => path);
      return { number: Number(number), file, from: Number(imported ?? handed) || undefined, over };
    },
  );
}

/** The files that a file imports. `code`: without imports of types. */
function importedBy(file: string, what: "anything" | "code"): Set<string> {
  const statements = read(file).matchAll(/^(?:import|export) (type )?([^;]*?)from "(\.[^"]+)"/gm);
  const kept = [...statements].filter(([, type, names = ""]) => {
    const isForTypes = type !== undefined || /^\{(?:\s*type [^,}]+,?)+\s*\}\s*$/.test(names);
    return what === "anything" || !isForTypes;
  });
  return new Set(kept.map(([, , , path = ""]) => join(dirname(file), path)));
}

const isLinked = (one: string, other: string): boolean =>
  importedBy(one, "anything").has(other) || importedBy(other, "anything").has(one);

/** The faults of a way: a missing stop, a stop that no earlier one leads to, or a way that leads back up. */
function faultsOf(way: readonly Stop[]): string[] {
  return way.flatMap(({ number, file, from, over }, index) => {
    if (!existsSync(join(root, file))) return [`${number}: there is no ${file}`];
    const before = way.slice(0, index).map((stop) => stop.file);
    const up = before
      .filter((path) => importedBy(file, "code").has(path))
      .map((path) => `${number}: leads up to ${path}`);
    if (before.includes(file)) up.push(`${number}: ${file} comes twice`);
    if (index === 0) return up;
    const known = before[(from ?? 0) - 1];
    if (known === undefined || number !== index + 1) return [...up, `${number}: no stop before it leads there`];
    if (over.length === 0 && !importedBy(known, "code").has(file)) up.push(`${number}: ${known} does not import it`);
    if (over.length === 0) return up;
    const chain = [file, ...over, known];
    const broken = chain
      .slice(1)
      .filter((path, at) => !existsSync(join(root, path)) || !isLinked(chain[at] ?? "", path));
    return [...up, ...broken.map((path) => `${number}: it does not come by way of ${path}`)];
  });
}

for (const heading of ["The way of one event", "The way of one review"]) {
  test(`${heading.toLowerCase()} has at most 15 stops, each known to one before it, and none leads back up`, () => {
    const way = wayOf(read("CONTRIBUTING.md"), heading);
    assert.ok(way.length >= 10 && way.length <= mostStops, `${way.length} stops`);
    assert.deepEqual(faultsOf(way), []);
  });
}

test("a way that leads up, that no file hands over, or that leads to no file is found", () => {
  const stop = (number: number, file: string, from?: number, ...over: string[]): Stop => ({ number, file, from, over });
  const conclude = "functions/shared/reconcile/conclude.ts";
  const act = "functions/shared/reconcile/act.ts";
  assert.deepEqual(faultsOf([stop(1, conclude), stop(2, act, 1)]), []);
  assert.deepEqual(faultsOf([stop(1, act), stop(2, conclude, 1)]), [
    `2: leads up to ${act}`,
    `2: ${act} does not import it`,
  ]);
  assert.deepEqual(faultsOf([stop(1, conclude), stop(2, act)]), ["2: no stop before it leads there"]);
  assert.deepEqual(faultsOf([stop(1, conclude), stop(2, act, 1, "triggers/table.ts")]), [
    "2: it does not come by way of triggers/table.ts",
    `2: it does not come by way of ${conclude}`,
  ]);
  assert.deepEqual(faultsOf([stop(1, "functions/none.ts")]), ["1: there is no functions/none.ts"]);
});
