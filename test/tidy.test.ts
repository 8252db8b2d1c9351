/** Reads the tree and holds it to its own rules (after TigerBeetle's tidy.zig). */
import assert from "node:assert/strict";
import { existsSync, globSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { annotationTable } from "../functions/shared/annotations/table.ts";
import { table } from "../triggers/table.ts";
import {
  functions,
  importsOf,
  matches,
  none,
  product,
  read,
  root,
  sources,
  tests,
  waysOf,
  withoutComments,
} from "./support/tree.ts";

const linesPerFunction = 60;
/** The body of a test may tell a longer story, because no other code calls it. */
const linesPerTest = 100;
/** What Biome cannot break, comments, may be a little wider than the 120 columns that it keeps; quoted texts are free. */
const columns = 130;

const folders = [...new Set(globSync("functions/*/*", { cwd: root }).map((path) => basename(dirname(path))))].filter(
  (name) => name !== "shared",
);

test("the tree has files to read", () => {
  assert.ok(functions.length > 20 && tests.length > 50 && folders.length > 0);
});

test("a function imports its own files and ../shared, and nothing beside it", () => {
  const offences = functions.flatMap((source) => {
    const isShared = source.path.startsWith("functions/shared/");
    const own = `${source.path.split("/", 2).join("/")}/`;
    const strays = waysOf(source).filter(
      (to) => !to.startsWith("functions/shared/") && (isShared || !to.startsWith(own)),
    );
    const packages = isShared ? [] : importsOf(source).filter((from) => !/^(\.|node:)/.test(from));
    return [...strays, ...packages].map((from) => `${source.path}: ${from}`);
  });
  none(offences, "a function stands alone");
});

/** The worlds that suites run in, and what suites borrow from each other. */
const commonGround = [
  "test/support/",
  "test/fake-cluster/",
  "test/controlplane/",
  "test/fencing/",
  "test/opensearch/",
  "test/process-manager/",
];

test("a suite imports its own folder, what suites borrow from each other, and the product", () => {
  const suiteOf = (path: string) => /^test\/[^/]+\//.exec(path)?.[0] ?? "test/";
  const files = new Set(tests.map(({ path }) => path));
  // What starts the others knows them.
  const suites = tests.filter(({ path }) => suiteOf(path) !== "test/");
  assert.ok(new Set(suites.map(({ path }) => suiteOf(path))).size > 10);
  const offences = suites.flatMap((source) => {
    const allowed = [suiteOf(source.path), ...commonGround];
    // A test may hold the text of a program, whose imports lead nowhere.
    const strays = waysOf(source).filter((to) => files.has(to) && !allowed.includes(suiteOf(to)));
    return strays.map((to) => `${source.path}: ${to}`);
  });
  none(offences, "what two suites need stands in test/support");
});

test("every cited rule stands in the ledger's README, and the code of a function cites each of them", () => {
  const [readme] = read("functions/shared/ledger/README.md");
  const rules = new Set([...(readme?.text ?? "").matchAll(/^\| (R\d+[a-z]?) \|/gm)].map(([, rule]) => rule ?? ""));
  assert.ok(rules.size >= 16);
  const everything = [...product, ...tests.filter(({ path }) => !path.endsWith(".test.ts")), ...read("**/*.md")];
  const cited = everything.flatMap(({ path, text }) =>
    [...text.matchAll(/(?<![\w-])R\d+[a-z]?(?![\w-])/g)].map(([rule]) => ({ path, rule })),
  );
  none(
    cited.filter(({ rule }) => !rules.has(rule)).map(({ path, rule }) => `${path}: ${rule}`),
    "a rule is written down",
  );
  const kept = new Set(
    cited.filter(({ path }) => path.startsWith("functions/") && path.endsWith(".ts")).map(({ rule }) => rule),
  );
  none(
    [...rules].filter((rule) => !kept.has(rule)),
    "a rule is kept by some code",
  );
});

test("no comment cites a document that is not in the tree", () => {
  const cited = sources.flatMap(({ path, text }) =>
    [...text.matchAll(/\bDESIGN\b|\bspecs\/|\bsection [\d]|\bits specification, [\d]/g)].map(
      ([message]) => `${path}: ${message}`,
    ),
  );
  none(
    cited.filter((place) => !place.startsWith("test/tidy.test.ts")),
    "a reader can look up what a comment cites",
  );
});

test("only the table imports functions; the servers import nothing but ../functions/shared", () => {
  const servers = product.filter(({ path }) => path.startsWith("triggers/") && path !== "triggers/table.ts");
  const offences = servers.flatMap((source) =>
    waysOf(source)
      .filter((to) => !/^(functions\/shared\/|triggers\/|package\.json$)/.test(to))
      .map((from) => `${source.path}: ${from}`),
  );
  none(offences, "nothing is reported of a function twice");
});

test("no file names a function, except those in its folder", () => {
  // Accounts of fencing are called as rights and policies of a cluster have them, whatever functions run with them.
  const others = product.filter(({ path }) => path !== "knative/render/fencing/names.ts");
  const offences = others.flatMap(({ path, text }) =>
    folders
      .filter((name) => !path.startsWith(`functions/${name}/`) && withoutComments(text).includes(`"${name}"`))
      .map((name) => `${path}: ${name}`),
  );
  none(offences, "a definition says everything of its function");
});

test("only functions/shared/kubernetes imports the Kubernetes client, and one file imports pino", () => {
  const importing = (name: string) =>
    product.filter((source) => importsOf(source).some((from) => from.startsWith(name))).map(({ path }) => path);
  const foreign = importing("@kubernetes/").filter((path) => !path.startsWith("functions/shared/kubernetes/"));
  none(foreign, "the client is behind Cluster");
  assert.equal(importing("pino").length, 1, importing("pino").join());
});

/** Functions of which a part stands alone, and is there before the function is. */
const begun: readonly string[] = [];

test("every function has the same five files, and a row in the table", () => {
  const whole = folders.filter((name) => !begun.includes(name));
  const missing = whole.flatMap((name) =>
    ["decide.ts", "observe.ts", "function.ts", "guards.ts", "README.md"]
      .map((file) => `functions/${name}/${file}`)
      .filter((path) => !existsSync(join(root, path))),
  );
  none(missing, "each path can be predicted");
  assert.deepEqual(table.map(({ name }) => name).sort(), whole.sort());
  none(
    begun.filter((name) => !folders.includes(name) || existsSync(join(root, `functions/${name}/function.ts`))),
    "an exception goes when its function comes",
  );
});

test("no file spells a key of the table of annotations, except the table", () => {
  const elsewhere = product.filter(({ path }) => !/^functions\/shared\/annotations\//.test(path));
  const offences = elsewhere.flatMap(({ path, text }) =>
    annotationTable.filter(({ key }) => withoutComments(text).includes(key)).map(({ key }) => `${path}: ${key}`),
  );
  none(offences, "a key is spelled once");
});

test("every key that a function reads or writes stands in its README", () => {
  for (const { name, reads, writes } of table) {
    const [readme] = read(`functions/${name}/README.md`);
    const missing = [...reads, ...writes]
      .filter(({ key }) => !readme?.text.includes(`\`${key}\``))
      .map(({ key }) => key);
    none(missing, `${name}/README.md leaves keys out`);
  }
});

/** Where a guard gets its name: the waits of a verdict, the answers to a review, and objects with the field `guard`. */
const guardNamed =
  /\b(?:wait|waitFor|doing|allow|askAgain|badRequest|forbidden|notFound|conflict|internalError|stays)\((?:member,)?\s*"([^"]+)"|\bguard: "([^"]+)"/g;

test("only one file creates the refusals of reviews", () => {
  const answers = "functions/shared/admission/answers.ts";
  // Answers of the API server use the same words.
  const ours = product.filter(({ path }) => /^(functions|triggers)\//.test(path) && !path.includes("/kubernetes/"));
  const refusals = matches(ours, /"(TooManyRequests|BadRequest|Forbidden|NotFound|Conflict|InternalError)"/);
  assert.ok(refusals.length >= 6);
  none(
    refusals.filter((place) => !place.startsWith(answers)),
    `a code and its reason are told together, in ${answers}`,
  );
});

test("every guard stands in a README and in a test", () => {
  const guards = new Set(
    functions.flatMap(({ text }) =>
      [...text.matchAll(guardNamed)].map(([, answered, reported]) => answered ?? reported ?? ""),
    ),
  );
  assert.ok(guards.size >= 11, [...guards].join());
  const readmes = read("functions/{*,shared/*}/README.md");
  const trials = tests.filter(({ path }) => path.startsWith("test/unit/") && path.endsWith(".test.ts"));
  for (const guard of guards) {
    assert.match(guard, /^[a-z]+(-[a-z]+)*$/);
    assert.ok(
      readmes.some(({ text }) => text.includes(`\`${guard}\``)),
      `${guard} is in no README`,
    );
    assert.ok(
      trials.some(({ text }) => text.includes(`"${guard}"`)),
      `${guard} is in no test`,
    );
  }
  const named = readmes.flatMap(({ text }) => [...text.matchAll(/^\| `([a-z]+(?:-[a-z]+)*)` +\|[^|]+\|[^|]+\|$/gm)]);
  const stale = named.map(([, guard]) => guard ?? "").filter((guard) => !guards.has(guard) && !isKey(guard));
  none(stale, "a README explains guards that there are not");
});

const isKey = (name: string): boolean => annotationTable.some(({ key }) => key === name);

test("every invariant of a README has a checker that names it, in the file that the README says", () => {
  for (const { path, text } of read("functions/{*,shared/standby}/README.md")) {
    const promises = [...text.matchAll(/^\| ([A-Z]\d) +\|.*\| (.+?) +\|$/gm)];
    assert.ok(promises.length > 0 || path !== "functions/advance-zone-rollout/README.md", "the heart promises nothing");
    for (const [, id, where] of promises) {
      for (const [, file] of (where ?? "").matchAll(/`([^`]+)`/g)) {
        const isTest = file?.startsWith("test/") === true;
        const [checker = ""] = read(isTest ? file : `test/{support,simulation}/${file}`).map((source) => source.text);
        const isNamed = isTest ? new RegExp(`\\b${id}\\b`).test(checker) : checker.includes(`"${id}"`);
        assert.ok(isNamed, `${path}: ${file} does not check ${id}`);
      }
    }
  }
});

test("no line is wider than the page, but for texts in quotes", () => {
  const wide = sources.flatMap(({ path, text }) =>
    text.split("\n").flatMap((line, index) => {
      const holdsText = /["`']/.test(line) && !/^\s*(\*|\/\/|\/\*\*)/.test(line);
      return line.length > columns && !holdsText ? [`${path}:${index + 1}: ${line.length} columns`] : [];
    }),
  );
  none(wide, `more than ${columns} columns`);
});

/**
 * The functions of a file that Biome has formatted, as [first line, last line]: a line that ends with `{` opens one when a
 * parameter list closes on it and no keyword of control stands before, nor of a suite, which is only a list; the next line
 * of the same indent with `}` ends it.
 */
function functionsOf(text: string): [number, number][] {
  const lines = text.split("\n");
  const indentOf = (line: string) => line.length - line.trimStart().length;
  const isControl = (line: string) => /^\s*(\} )?(if|for|while|switch|else|catch|do|try|describe|suite)\b/.test(line);
  const startOf = (at: number): number => {
    const line = lines[at] ?? "";
    if (!/^\s*[)}]/.test(line)) return at;
    return lines.findLastIndex(
      (other, index) => index < at && other.trim() !== "" && indentOf(other) === indentOf(line),
    );
  };
  return lines.flatMap((line, at): [number, number][] => {
    if (!/\)(: [^=]+)? (=> )?\{$|=> \{$/.test(line)) return [];
    const first = startOf(at);
    const ends = (other: string, index: number) =>
      index > at && indentOf(other) === indentOf(line) && other.trimStart().startsWith("}");
    const last = lines.findIndex(ends);
    return last < 0 || isControl(lines[first] ?? "") ? [] : [[first, last]];
  });
}

// In all other files Biome checks the length of functions: it cannot tell a test from the suite that it stands in.
test("in the files of tests no function is longer than 60 lines, and no test longer than 100", () => {
  const suites = tests.filter(({ path }) => /\.test\.ts$|^test\/contract\/cases-/.test(path));
  assert.ok(suites.length > 50);
  const long = suites.flatMap(({ path, text }) => {
    const lines = text.split("\n");
    return functionsOf(text)
      .map(([first, last]) => ({ first, lines: last - first + 1, isTest: /^\s*(test|it)\(/.test(lines[first] ?? "") }))
      .filter(({ lines, isTest }) => lines > (isTest ? linesPerTest : linesPerFunction))
      .map(({ first, lines }) => `${path}:${first + 1}: ${lines} lines`);
  });
  none(long, "too long to be seen at once");
});

test("the function matcher sees functions, methods, arrows and signatures over several lines", () => {
  const body = "  x();\n".repeat(3);
  assert.deepEqual(functionsOf(`function a(b: C): D {\n${body}}\n`), [[0, 4]]);
  assert.deepEqual(functionsOf(`async function a(\n  b: C,\n): Promise<D> {\n${body}}\n`), [[0, 6]]);
  assert.deepEqual(functionsOf(`const a = (b) => {\n${body}};\n`), [[0, 4]]);
  assert.deepEqual(functionsOf(`test("a", async () => {\n${body}});\n`), [[0, 4]]);
  assert.deepEqual(functionsOf(`class A {\n  get(b: C): D {\n    x();\n  }\n}\n`), [[1, 3]]);
  assert.deepEqual(functionsOf(`if (a()) {\n${body}}\n`), []);
  assert.deepEqual(functionsOf(`describe("a", {\n  b,\n}, () => {\n${body}});\n`), []);
});

/** The names of the types that a source declares, imports apart. */
function typesOf({ text }: Pick<(typeof product)[number], "text">): string[] {
  const code = withoutComments(text).replace(/^import [^;]*;$/gm, "");
  const declared = code.matchAll(
    /^\s*(?:export |declare |abstract )*(?:interface|class|enum|type(?=\s+\w+[^=;{]*=)) (\w+)/gm,
  );
  return [...declared].map(([, name = ""]) => name);
}

test("no type of the product has the name of another", () => {
  const places = product.flatMap((source) => typesOf(source).map((name) => ({ name, path: source.path })));
  assert.ok(places.length > 500);
  const twice = [...Map.groupBy(places, ({ name }) => name)].filter(([, found]) => found.length > 1);
  none(
    twice.map(([name, found]) => `${name}: ${found.map(({ path }) => path).join(", ")}`),
    "one thing for one word",
  );
});

test("the matcher of types takes what is declared, and leaves out what is imported or used", () => {
  const text =
    'import {\n  type A,\n  type B as C,\n} from "d";\nimport type { E } from "f";\nexport type F<G> = H;\n' +
    "interface I extends J {}\nexport abstract class K {}\nfunction l(): void {\n  type M = N;\n}\n// type O = P\n";
  assert.deepEqual(typesOf({ text }), ["F", "I", "K", "M"]);
});

test("no source has a note of work to be done, and no file is called utils, helpers, manager or common", () => {
  const word = new RegExp(`\\b(${["TO-DO", "FIX-ME"].join("|").replaceAll("-", "")})\\b`);
  none(
    sources.filter(({ text }) => word.test(text)).map(({ path }) => path),
    "do it, or open an issue",
  );
  // A process manager is a program that stops and starts another one: those who run databases call it so.
  const vague = sources
    .map(({ path }) => path.replace("/process-manager/", "/"))
    .filter((path) => /(^|[/.-])(utils?|helpers?|managers?|common)([/.-]|$)/i.test(path));
  none(vague, "a name says what is in it");
});

test("no text has a word that hides who acts", () => {
  const hiding = ["who-ever", "no-body", "some-body", "any-body", "th-at one"].map((word) => word.replace("-", ""));
  const word = new RegExp(`\\b(${hiding.join("|")})\\b`, "i");
  const texts = [...sources, ...read("*.md", "{functions,triggers,knative,test}/**/*.{md,yaml,sh}")];
  const offences = texts
    .filter(({ path }) => path !== "CHANGELOG.md")
    .flatMap(({ path, text }) =>
      text.split("\n").flatMap((line, index) => (word.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
    );
  none(offences, "say which thing acts");
});

test("package-lock.json pins no registry", () => {
  const [lock] = read("package-lock.json");
  assert.ok(lock !== undefined && !/"resolved":\s*"https?:/.test(lock.text));
});

test("no file mentions a path of a developer's machine", () => {
  const places = ["work", "root", "home"].map((name) => `/${name}`).join("|");
  const pattern = new RegExp(`(?<![\\w.*$}~)-])(${places})(?=[/"'\`\\s),;:]|$)`, "m");
  const everything = read(
    "*.{json,md,ts,yaml,yml}",
    "Dockerfile*",
    "{functions,triggers,test,knative,docs}/**/*.{ts,md,json,yaml,go,sh}",
    ".ci/*",
    ".github/**/*.yml",
  );
  const offences = everything.flatMap(({ path, text }) =>
    pattern.test(text) ? [`${path}: ${pattern.exec(text)?.[0]}`] : [],
  );
  none(offences, "the tree works anywhere");
});
