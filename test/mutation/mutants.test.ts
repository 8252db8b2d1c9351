/** Tests which changes of a source are mutants, which are left out, and how they are identified. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { findMutants, type MutatedSource } from "./mutants.ts";
import { render } from "./schemata.ts";

const changesOf = ({ mutants }: MutatedSource) =>
  mutants.map(({ original, replacement }) => `${original} → ${replacement}`);
const changes = (text: string) => changesOf(findMutants("a.ts", text));

test("every operator, condition, number and truth value is changed", () => {
  assert.deepEqual(changes("const a = (b: number, c: number): boolean => b < c;"), [
    "b < c → b <= c",
    "b < c → b >= c",
  ]);
  assert.deepEqual(changes("const a = b === c;"), ["b === c → b !== c"]);
  assert.deepEqual(changes("const a = (b ?? c) + d;"), [
    "(b ?? c) + d → (b ?? c) - d",
    "b → undefined",
    "c → undefined",
  ]);
  assert.deepEqual(changes("const a = !b;"), ["!b → b"]);
  assert.deepEqual(changes("const a = [true, 0, 1, 3, 600];"), [
    "true → false",
    "0 → 1",
    "1 → 0",
    "3 → 4",
    "600 → 300",
    "600 → 1200",
  ]);
  assert.deepEqual(changes('const a = b === "x";'), ['b === "x" → b !== "x"', '"x" → ""']);
  assert.deepEqual(changes("const a = b ? c : d;"), ["b → true", "b → false"]);
  assert.deepEqual(changes("while (a) b++;"), ["a → false", "b++; → ", "b++ → b--"]);
});

test("each operand of a condition is removed alone, so that every clause of a rule must be tested", () => {
  assert.deepEqual(changes("const a = b && c && d;"), [
    "b && c && d → (b && c) || (d)",
    "b && c → (b) || (c)",
    "b → true",
    "c → true",
    "d → true",
  ]);
  assert.deepEqual(changes("const a = b || c;"), ["b || c → (b) && (c)", "b → false", "c → false"]);
  assert.deepEqual(changes("const a = b && { c };"), ["b && { c } → (b) || ({ c })", "b → true"]);
});

test("calls for their effect, assignments and early exits are removed; a last return is no early exit", () => {
  assert.deepEqual(changes("function a() { b(); c = d; return e; }"), ["b(); → ", "c = d; → "]);
  assert.deepEqual(changes("for (const a of b) { if (a) { d(); continue; } e(); }"), [
    "a → true",
    "a → false",
    "d(); → ",
    "continue; → ",
    "e(); → ",
  ]);
});

test("methods that come in pairs are exchanged, and each side of a bound is removed", () => {
  assert.deepEqual(changes("const a = b.some(c);"), ["b.some(c) → b.every(c)"]);
  assert.deepEqual(changes("const a = b.filter(c).toSorted(d);"), [
    "b.filter(c).toSorted(d) → b.filter(c)",
    "b.filter(c) → b",
  ]);
  assert.deepEqual(changes("const a = Math.min(b, c);"), [
    "Math.min(b, c) → Math.max(b, c)",
    "Math.min(b, c) → b",
    "Math.min(b, c) → c",
  ]);
  assert.deepEqual(changes("const a = [...b, c];"), ["b → []"]);
  assert.deepEqual(changes("const a = b.toString(c) + Math.hypot(c);"), [
    "b.toString(c) + Math.hypot(c) → b.toString(c) - Math.hypot(c)",
  ]);
});

test("messages are not mutated: texts, templates with a space, and the choice between two of them", () => {
  assert.deepEqual(changes(`const a = \`\${b > 1 ? "some" : "one"} of them\`;`), []);
  assert.deepEqual(changes(`const a = b ? "it is" : "";`), []);
  assert.deepEqual(changes(`const a = b ? "next" : "last";`), ["b → true", "b → false"]);
  assert.deepEqual(changes('import a from "b"; export { a };'), []);
});

test("the id of a mutant survives moved lines, and two equal changes in one function have different ids", () => {
  const text = "function a() { return b > 0 && c > 0; }";
  const here = findMutants("a.ts", text).mutants;
  const there = findMutants("a.ts", `// more\n\nconst d = 7;\n${text}`).mutants.slice(1);
  assert.deepEqual(
    there.map(({ id }) => id),
    here.map(({ id }) => id),
  );
  assert.equal(new Set(here.map(({ id }) => id)).size, here.length);
  assert.deepEqual([...new Set(here.map(({ within, line }) => `${within} ${line}`))], ["a 1"]);
  assert.notEqual(findMutants("b.ts", text).mutants[0]?.id, here[0]?.id);
});

test("without an active mutant, a mutated script does what the source does, brackets included", async () => {
  const text = `let n = 0;
    for (let i = 0; i < 3; i++) if (i % 2 === 0) n += (i ?? 1) + 1; else n--;
    const c = { d: undefined as undefined | { e: number[] } };
    const f = c.d?.e.filter((one) => one > 1).length ?? -1;
    export const results = [n, f, Math.max(2, n) * (n - 1), [3, 1].sort((a, b) => a - b)[0], ((n || 7) && f) + 1];`;
  const source = findMutants("a.ts", text);
  assert.ok(source.mutants.length > 40);
  const runtime = new URL("./runtime.ts", import.meta.url).href;
  const { state } = (await import("./runtime.ts")) as typeof import("./runtime.ts");
  for (const build of ["run", "record"] as const) {
    const url = `data:text/javascript,${encodeURIComponent(render(source, 1, build, runtime))}`;
    const { results } = (await import(url)) as { results: unknown };
    assert.deepEqual(results, [3, -1, 6, 1, 0], build);
  }
  assert.ok(state.felt.size > 20 && state.felt.size < source.mutants.length, `${state.felt.size} are felt`);
});

test("a run feels both truth values of what is no boolean, because a reader may use it as what it is", async () => {
  const { state } = (await import("./runtime.ts")) as typeof import("./runtime.ts");
  const felt = (value: unknown) => {
    state.felt.clear();
    assert.equal(state.truth(1, 2, value), value);
    return [...state.felt].sort();
  };
  assert.deepEqual([felt(true), felt(false), felt([]), felt(undefined)], [[2], [1], [1, 2], [1, 2]]);
});
