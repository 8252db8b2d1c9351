/** Compares the guards that definitions explain with the sources that produce them, the READMEs, and the tests. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fillTodo } from "../../functions/shared/base/guards.ts";
import { table } from "../../triggers/table.ts";
import { product, read, type Source, tests, waysOf, withoutComments } from "../support/tree.ts";

const byPath = new Map(product.map((source) => [source.path, source]));
const isData = ({ path }: Source): boolean => path.endsWith("/guards.ts");

/** Where a guard gets its name: a wait, an answer to a review, or an object with the field `guard`. */
const guardNamed =
  /\b(?:wait|waitFor|doing|idle|allow|askAgain|notYet|refuse|badRequest|forbidden|notFound|conflict|internalError|stays|reporting)\(\s*(?:member,\s*)?"([a-z-]+)"|\bguard: "([a-z-]+)"|\bguard(?:: |\b.* = )[^"\n;]*\? "([a-z-]+)" : "([a-z-]+)"|\btaking: "([a-z-]+)"/g;

/** The guards that a text names, without its comments. */
function guardsIn(text: string): string[] {
  return [...withoutComments(text).matchAll(guardNamed)].flatMap(([, ...names]) => names.filter(Boolean));
}

/** The sources that the definition of a function imports, directly or through others, without the data. */
function closureOf(name: string): Source[] {
  const found = new Set<Source>();
  const walk = (path: string): void => {
    const source = byPath.get(path);
    if (source === undefined || found.has(source)) return;
    found.add(source);
    for (const way of waysOf(source)) walk(way);
  };
  walk(`functions/${name}/function.ts`);
  return [...found].filter((source) => !isData(source));
}

/** The texts and keys of a source, of which some are guards. */
const quotedIn = new Map(
  product.map(({ path, text }) => {
    const found = withoutComments(text).matchAll(/["`]([a-z]+(?:-[a-z]+)*)["`]|^\s*([a-z]+): /gm);
    return [path, new Set([...found].map(([, quoted, key]) => quoted ?? key ?? ""))];
  }),
);

const quotes = ({ path }: Source, guard: string): boolean => quotedIn.get(path)?.has(guard) === true;

test("a function explains each guard that a source of its own names", () => {
  const checked = table.flatMap(({ name, guards }) => {
    const own = product.filter((source) => source.path.startsWith(`functions/${name}/`) && !isData(source));
    const named = own.filter(({ path }) => !isOfOtherProgram(path)).flatMap(({ text }) => guardsIn(text));
    return named.map((guard) => ({ guard, place: `${name}: ${guard}`, isExplained: Object.hasOwn(guards, guard) }));
  });
  assert.ok(checked.length > 250, `${checked.length} guards`);
  const missing = checked.filter(({ isExplained }) => !isExplained).map(({ place }) => place);
  assert.deepEqual(missing, []);
});

/** Programs of their own, which give no verdicts. */
const isOfOtherProgram = (path: string): boolean => /\/(agent|process-manager|stop-gate)\//.test(path);

test("a function explains no guard that none of the sources which it imports can name", () => {
  const strays = table.flatMap((definition) => {
    const closure = closureOf(definition.name);
    const names = Object.keys(definition.guards).filter((guard) => !givenByTriggers(definition, guard));
    return names
      .filter((guard) => !closure.some((source) => quotes(source, guard)))
      .map((guard) => `${definition.name}: ${guard}`);
  });
  assert.deepEqual(strays, []);
});

/** A process that serves a function stands by in its place, and refuses a review that contradicts itself. */
function givenByTriggers(definition: (typeof table)[number], guard: string): boolean {
  if ("registration" in definition) return ["other-operator", "invalid-request"].includes(guard);
  return "keyedBy" in definition && definition.standsBy !== false && guard === "other-operator";
}

test("a unit test names each guard of a function; for a guard that no room of functions/shared has, it is a test of the function", () => {
  const trials = tests.filter(({ path }) => path.startsWith("test/unit/") && path !== "test/unit/guards.test.ts");
  const isShared = (guard: string) =>
    product.some((one) => one.path.startsWith("functions/shared/") && !isData(one) && quotes(one, guard));
  const isIn = (sources: readonly Source[], guard: string) => sources.some(({ text }) => text.includes(guard));
  const untested = table.flatMap((definition) => {
    const own = trials.filter((source) => isTestOf(source, `functions/${definition.name}/`));
    const names = Object.keys(definition.guards).filter((guard) => !givenByTriggers(definition, guard));
    return names
      .filter((guard) => !isIn(isShared(guard) ? trials : own, guard))
      .map((guard) => `${definition.name}: ${guard}`);
  });
  assert.deepEqual(untested, []);
});

const waysOfTests = new Map(tests.map((source) => [source.path, waysOf(source)]));

/** True for a test, or what tests share, that imports a file of the folder, or shares something that does. */
function isTestOf(source: Source, folder: string): boolean {
  const ways = waysOfTests.get(source.path) ?? [];
  const shared = ways.flatMap((path) => waysOfTests.get(path) ?? []);
  return source.path.startsWith(`test/unit/${folder}`) || [...ways, ...shared].some((path) => path.startsWith(folder));
}

/** The rows of the tables of a document that have the column `ends`, each by the names of its columns. */
function rowsOf(text: string): ReadonlyMap<string, string>[] {
  const tables = [...text.matchAll(/^\| guard \|.* ends \|.*\n\|[ |-]+\n(?:\|.*\n)+/gm)].map(([all]) => all);
  return tables.flatMap((lines) => {
    const [head = [], , ...rows] = lines.trimEnd().split("\n").map(cellsOf);
    return rows.map((cells) => new Map(head.map((column, at) => [column, cells[at] ?? ""])));
  });
}

const cellsOf = (line: string): string[] =>
  line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());

/** Without marks of code and without links. */
const plainOf = (cell: string): string => cell.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll("`", "");

/** True for a cell that has the text of the data, and may go on after it. */
function agrees(cell: string, text: string): boolean {
  const [shown, stated] = [plainOf(cell), plainOf(text)];
  return shown === stated || (shown.startsWith(stated) && /^( \(|[.;:,])/.test(shown.slice(stated.length)));
}

test("the table of guards in each README has a row for each guard of the function, with the text of its data", () => {
  for (const { name, guards } of table) {
    const [readme] = read(`functions/${name}/README.md`);
    const rows = rowsOf(readme?.text ?? "");
    const nameOf = (row: ReadonlyMap<string, string>) => /`([a-z-]+)`/.exec(row.get("guard") ?? "")?.[1] ?? "";
    assert.deepEqual(rows.map(nameOf).sort(), Object.keys(guards).sort(), name);
    for (const row of rows) {
      const guard = nameOf(row);
      const { ends = "", means = "", todo = "" } = guards[guard] ?? {};
      const cell = (column: string) => row.get(column) ?? "";
      assert.equal(cell("ends"), ends, `${name}: ${guard}`);
      assert.ok(agrees(cell("what it means"), means), `${name}: ${guard} means: ${means}`);
      assert.ok(agrees(cell("what to do"), todo), `${name}: ${guard}: what to do: ${todo}`);
    }
  }
});

test("a row agrees with the data when it has the same text, in marks of code or before further words", () => {
  assert.deepEqual(
    ["do `a`", "do [a](b.md)", "do a. Or b", "do a (R1)"].map((cell) => agrees(cell, "do a")),
    [true, true, true, true],
  );
  assert.deepEqual(
    ["do", "do ab", "do a or b"].map((cell) => agrees(cell, "do a")),
    [false, false, false],
  );
});

test("each text of a guard is short and has no full stop, and name no place that cannot be filled in", () => {
  for (const { name, guards } of table)
    for (const [guard, { ends, means, todo }] of Object.entries(guards)) {
      const what = `${name}: ${guard}`;
      assert.match(guard, /^[a-z]+(-[a-z]+)*$/);
      for (const text of [means, todo]) {
        assert.match(text, /^[^A-Z\s].*[^.\s]$|^[A-Z].*[^.\s]$/s, what);
        assert.doesNotMatch(text, /\n|`|[.?!] [A-Z]/, what);
        assert.ok(text.split(" ").length <= 35, what);
      }
      assert.deepEqual(means.match(/[{}]/g), null, what);
      assert.doesNotMatch(fillTodo({ todo }, {}), /[{}]/, what);
      if (ends === "person") assert.doesNotMatch(todo, /^nothing\b/, what);
    }
});

test("a todo gets the names that are known; a missing name, or one that a shell would run, stays a word in capitals", () => {
  const todo = "kubectl get pod -n {namespace} {pod} # {zone} of {group}, {other}";
  const filled = fillTodo({ todo }, { namespace: "db", zone: "$(reboot)", group: "My_group.1" });
  assert.equal(filled, "kubectl get pod -n db POD # ZONE of My_group.1, {other}");
  for (const zone of ["", "-x", "a b", "a;b", "a\n", "../a", "x-"])
    assert.equal(fillTodo({ todo: "{zone}" }, { zone }), "ZONE", zone);
  assert.equal(fillTodo({ todo: "{zone}" }, { zone: "a" }), "a");
  for (const group of ["owner:RedisCluster.example.com/cache", "budget:limit", "statefulset:db"])
    assert.equal(fillTodo({ todo: "{group}" }, { group }), group);
  for (const group of ["owner:RedisCluster/$(reboot)", "owner:/", "/etc/passwd", "a b"])
    assert.equal(fillTodo({ todo: "{group}" }, { group }), "GROUP", group);
});
