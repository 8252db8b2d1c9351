/** The documents, held to being read: READMEs stay short and plain, and every link leads somewhere. */
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";

const root = join(import.meta.dirname, "../..");
const linesOfReadme = 150;
const wordsPerSentence = 25;
const linesOfScreen = 50;

const read = (path: string): string => readFileSync(join(root, path), "utf8");
const documents = globSync(["*.md", "{functions,triggers,knative,test}/**/*.md"], { cwd: root }).sort();

/** Without blocks of code, whatever their indent. */
function withoutCode(text: string): string {
  return text.replace(/^ *```[\s\S]*?^ *```$/gm, "");
}

/** The sentences of a document, tables and blocks of code apart; a heading and an item of a list end one, too. */
function sentencesOf(text: string): string[] {
  const prose = withoutCode(text).replace(/^\s*\|.*$/gm, "");
  const shown = prose.replace(/(\[[^\]]*\])\([^)]*\)/g, "$1").replace(/^#+ .*$/gm, "$&\n");
  const paragraphs = shown.split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )/);
  const sentences = paragraphs.flatMap((paragraph) => paragraph.replace(/\s+/g, " ").split(/(?<=[.?!][*_)"`\]]*) /));
  return sentences.map((sentence) => sentence.trim()).filter((sentence) => sentence !== "");
}

/** How many words: what has a letter or a digit in it. */
const wordsIn = (sentence: string): number => sentence.split(" ").filter((word) => /[\p{L}\p{N}]/u.test(word)).length;

/** The fragments that lead to the headings of a document, as GitHub makes them. */
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

/** The targets of the links of a document that lead to no other site. */
function linksOf(text: string): string[] {
  const links = [...withoutCode(text).matchAll(/\[[^\]]*\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  return links.filter((target) => !/^[a-z]+:/.test(target));
}

/** Why a link of a document leads nowhere; undefined where it leads to a file, and to a heading where it names one. */
function lost(document: string, link: string): string | undefined {
  const [file = "", fragment] = link.split("#");
  const path = file === "" ? document : relative(root, join(root, dirname(document), file));
  if (path.startsWith("..") || !existsSync(join(root, path))) return `${document}: no file ${link}`;
  if (fragment === undefined) return undefined;
  return fragmentsOf(read(path)).includes(fragment) ? undefined : `${document}: no heading ${link}`;
}

test("the README has at most 150 lines, and no sentence of more than 25 words", () => {
  const readme = read("README.md");
  const lines = readme.trimEnd().split("\n").length;
  assert.ok(lines <= linesOfReadme, `${lines} lines`);
  const sentences = sentencesOf(readme);
  assert.ok(sentences.length > 40, `${sentences.length} sentences`);
  assert.deepEqual(
    sentences.filter((sentence) => wordsIn(sentence) > wordsPerSentence),
    [],
  );
});

test("every relative link of a document leads to a file, and to a heading where it names one", () => {
  const links = documents.flatMap((document) => linksOf(read(document)).map((link) => ({ document, link })));
  assert.ok(documents.length > 12 && links.length > 30, `${documents.length} documents, ${links.length} links`);
  assert.deepEqual(
    links.flatMap(({ document, link }) => lost(document, link) ?? []),
    [],
  );
});

/** What stands above the first line of a document, and what stands below it. */
function screensOf(text: string): { readonly first: string; readonly rest: string } {
  const [first = "", ...rest] = text.split("\n---\n");
  return { first, rest: rest.join("\n---\n") };
}

/** The guards that tables of a document explain, each in a row of its own. */
function guardsExplained(text: string): string[] {
  const tables = [...text.matchAll(/^\| guard \|.*\n\|[ |-]+\n((?:\|.*\n)+)/gm)].map(([, rows = ""]) => rows);
  return tables.flatMap((rows) => [...rows.matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, guard = ""]) => guard));
}

test("the README of a function has promise, what is read, guards and undo on one screen, and the rest below a line", () => {
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
    assert.ok(guards.length > 1, `${path} explains ${guards.length} guards`);
    const unnamed = guards.filter((guard) => !first.includes(`\`${guard}\``));
    assert.deepEqual(unnamed, [], `${path}: guards that are not above the line`);
  }
});

test("sentences end at stops, headings and items; tables, code and the targets of links are none of theirs", () => {
  const text =
    '# A b\nC `d.e` f. *G h.* I\nj!\n\n- k\n- l (m.) n\n\n| o. | p |\n\n```sh\nq. r\n```\n\n[S](t.md#u) v.\n1. "w."\n';
  const expected = ["# A b", "C `d.e` f.", "*G h.*", "I j!", "- k", "- l (m.)", "n", "[S] v.", "1.", '"w."'];
  assert.deepEqual(sentencesOf(text), expected);
  assert.equal(wordsIn('It takes 3 x `a b` - "well" …'), 7);
});

test("a link is lost without its file or its heading, and is no link in a block of code", () => {
  assert.deepEqual(linksOf("[a](b.md) [c\nd](#e) [f](https://g.h)\n```\n[i](j)\n```\n"), ["b.md", "#e"]);
  assert.deepEqual(fragmentsOf("# A, `b` and c-d?\n## [E](f.md)\n```\n# g\n```\n## E\n"), ["a-b-and-c-d", "e", "e-1"]);
  assert.equal(lost("knative/README.md", "../README.md#install"), undefined);
  assert.equal(lost("knative/README.md", "#away-with-it"), undefined);
  assert.match(lost("knative/README.md", "README.txt") ?? "", /no file/);
  assert.match(lost("knative/README.md", "../../README.md") ?? "", /no file/);
  assert.match(lost("README.md", "knative/README.md#install") ?? "", /no heading/);
});
