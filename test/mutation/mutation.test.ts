/** Runs `npm run mutate` on a small project: mutants that its tests notice are killed, and the others are reported. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { mutate } from "./mutate.ts";
import type { Options } from "./options.ts";
import type { Project } from "./project.ts";

const root = mkdtempSync(join(tmpdir(), "sluice-mutation-"));
after(() => rmSync(root, { recursive: true, force: true }));

const project: Project = {
  root,
  targets: ["src/*.ts"],
  tests: ["test/*.test.ts"],
  simulation: "simulation",
  code: ["src/*.ts"],
  testCode: ["test/*.ts"],
  simulationCode: ["simulation/*.ts"],
  survivors: "survivors.json",
  cache: "tmp",
};
const files = {
  "package.json": '{ "type": "module" }',
  "survivors.json": "[]",
  "src/limit.ts": `export const most = 3;
export function allows(down: number, limit: number): boolean {
  return down < limit && down >= 0;
}
export function count(down: number[]): number {
  let sum = 0;
  for (let index = 0; index < down.length; index++) sum += 1;
  return sum;
}
`,
  "test/limit.test.ts": `import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { allows, count, most } from "../src/limit.ts";
describe("a limit", () => {
  test("is no more than that", () => {
    assert.equal(allows(2, 3), true);
    assert.equal(allows(3, 3), false);
  });
  test("is three", () => assert.equal(most, 3));
  test("counts, and comes to an end", async () => assert.equal(count([7, 7]), 2));
});
`,
  "simulation/simulation.ts": `import { allows } from "../src/limit.ts";
export async function simulate(seed: number, options: { aim?: () => number } = {}) {
  const down = options.aim?.() ?? seed;
  return { violations: allows(down, 1_000) === (down >= 0) ? [] : [{ invariant: "Z1", message: "too many" }] };
}
`,
  "simulation/rules-evictions.ts": "export const removedRules = [{ rule: 'R1', aim: () => 5 }];\n",
};

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}
for (const [path, text] of Object.entries(files)) write(path, text);

async function run(options: Partial<Options> = {}) {
  const lines: string[] = [];
  const all = { files: undefined, changedSince: undefined, workers: 1, list: false, only: undefined, out: undefined };
  const code = await mutate(project, { seeds: 0, testSeconds: 20, ...all, ...options }, (line) => lines.push(line));
  return { code, text: lines.join("\n") };
}

const survivorsOf = (text: string) =>
  [...text.matchAll(/^survived: \S+ (.*) \[(\w+)\](.*)$/gm)].map(([, what, id, more]) => ({ what, id, more }));

test("mutants that the tests notice are killed, and the report says of each survivor whether any test could feel it", async () => {
  const { code, text } = await run();
  assert.deepEqual(
    survivorsOf(text).map(({ what, more }) => `${what}${more}`),
    [
      "allows: down >= 0 → true, and nothing feels it",
      "allows: down >= 0 → down > 0, and nothing feels it",
      "allows: 0 → 1",
    ],
  );
  assert.match(text, /^15 of 18 mutants killed, 83\.3 of 100, in \d+ s; 0 survivors are accepted, 3 are not$/m);
  assert.equal(code, 1);
});

test("a run of unchanged files runs nothing, and one whose test has changed does", async () => {
  assert.doesNotMatch((await run()).text, /recorded|tried/);
  write("test/limit.test.ts", `${files["test/limit.test.ts"]}\n// changed\n`);
  assert.match((await run()).text, /3 recorded/);
});

test("a mutant survives if its tests take longer than their bound, and without a bound they kill it", async () => {
  const slow = {
    "src/slow.ts": "export function isOver(value: number): boolean {\n  return value > 3;\n}\n",
    "test/slow.test.ts": `import assert from "node:assert/strict";
import { test } from "node:test";
import { isOver } from "../src/slow.ts";
test("four is over three", async () => {
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  assert.deepEqual([2, 3, 4].map(isOver), [false, false, true]);
});
`,
  };
  for (const [path, text] of Object.entries(slow)) write(path, text);
  assert.match((await run({ files: ["slow.ts"], testSeconds: 1 })).text, /^0 of 3 mutants killed/m);
  assert.match((await run({ files: ["slow.ts"], testSeconds: 0 })).text, /^3 of 3 mutants killed/m);
  for (const path of Object.keys(slow)) rmSync(join(root, path));
});

test("a source of constants is tried on the tests of the sources that import it", async () => {
  const added = {
    "src/bounds.ts": "export const largest = 3;\nexport const smallest = 2;\n",
    "src/within.ts": `import { largest, smallest } from "./bounds.ts";
export function isWithin(value: number): boolean {
  return value <= largest;
}
export const least = smallest;
`,
    "test/within.test.ts": `import assert from "node:assert/strict";
import { test } from "node:test";
import { isWithin } from "../src/within.ts";
test("three is", () => { assert.ok(isWithin(3)); assert.ok(!isWithin(4)); });
`,
  };
  for (const [path, text] of Object.entries(added)) write(path, text);
  const { text } = await run({ files: ["bounds.ts", "within.ts"] });
  assert.deepEqual(
    survivorsOf(text).map(({ what }) => what),
    ["smallest: 2 → 3"],
  );
  for (const path of Object.keys(added)) rmSync(join(root, path));
});

test("a test may mock methods and time while it runs", async () => {
  write(
    "test/mock.test.ts",
    `import assert from "node:assert/strict";
import { test } from "node:test";
const { random } = Math;
test("a method", (context) => { context.mock.method(Math, "random", () => 2); assert.equal(Math.random(), 2); });
test("the next test has its own", () => assert.equal(Math.random, random));
`,
  );
  const { text } = await run();
  assert.match(text, /^tests: 5 recorded/m);
  assert.doesNotMatch(text, /fails without any mutant/);
  rmSync(join(root, "test/mock.test.ts"));
});

test("mutants that survive the tests are tried on seeds, of the default plan and of the aimed scenarios", async () => {
  const [kept] = survivorsOf((await run({ seeds: 20 })).text);
  assert.equal(kept?.what, "allows: down >= 0 → true");
  write("simulation/rules-evictions.ts", "export const removedRules = [{ rule: 'R1', aim: () => -1 }];\n");
  const { text } = await run({ seeds: 20 });
  assert.deepEqual(
    survivorsOf(text).map(({ what }) => what),
    ["allows: down >= 0 → down > 0", "allows: 0 → 1"],
  );
});

test("an accepted survivor is no failure; one that is killed or gone is reported", async () => {
  const all = survivorsOf((await run()).text).map(({ id }) => id);
  const entry = (id: string | undefined) => ({
    id,
    file: "src/limit.ts",
    within: "allows",
    change: "it",
    why: "It is the same.",
  });
  write("survivors.json", JSON.stringify([...all.map(entry), entry("abc")]));
  const { code, text } = await run({ seeds: 0 });
  assert.doesNotMatch(text, /^survived/m);
  assert.match(text, /^accepted as a survivor, but gone: src\/limit.ts allows: it \[abc\]$/m);
  assert.match(text, /3 survivors are accepted, 0 are not$/m);
  assert.equal(code, 1, "three of so few are too many, with or without a reason");
  write(
    "test/more.test.ts",
    `import assert from "node:assert/strict";
import { test } from "node:test";
import { allows } from "../src/limit.ts";
test("nothing below zero", () => { assert.equal(allows(-1, 3), false); assert.equal(allows(0, 3), true); });
`,
  );
  const better = await run();
  assert.equal(better.text.match(/^accepted as a survivor, but killed/gm)?.length, 3);
  assert.equal(better.code, 0);
  rmSync(join(root, "test/more.test.ts"));
  write("survivors.json", JSON.stringify([{ ...entry(all[0]), why: "" }]));
  await assert.rejects(run(), /lacks its reason/);
  write("survivors.json", "[]");
});

test("a file that cannot be imported, or a test that is gone, kills nothing: the run stops and says why", async () => {
  write("test/more.test.ts", 'import { nothing } from "../src/limit.ts";\nnothing();\n');
  await assert.rejects(run(), /does not provide an export named 'nothing'/);
  rmSync(join(root, "test/more.test.ts"));
});

test("--list names the mutants and runs nothing; --only tries only the named ones; --out writes a table", async () => {
  const { code, text } = await run({ list: true });
  assert.equal(code, 0);
  assert.match(text, /^src\/limit\.ts:1 most: 3 → 4 \[\w{10}\]$/m);
  const [, id = ""] = /most: 3 → 4 \[(\w+)\]/.exec(text) ?? [];
  const out = join(root, "out.md");
  const only = await run({ only: [id], out });
  assert.match(only.text, /^1 of 1 mutants killed, 100 of 100/m);
  assert.equal(only.code, 0);
  assert.match(readFileSync(out, "utf8"), /\| `src\/limit\.ts` \| 1 \| 1 \| 100 \|/);
  assert.equal((await run({ only: ["nothing"] })).code, 2);
  assert.equal((await run({ files: ["nothing.ts"] })).code, 2);
});

test("a wrong option exits 2 and is named; --help lists the options", () => {
  const main = fileURLToPath(new URL("./main.ts", import.meta.url));
  const start = (...message: string[]) => spawnSync(process.execPath, [main, ...message], { encoding: "utf8" });
  const { status, stderr } = start("--seeds", "none", "--workers", "0", "--files", "a,,b");
  assert.equal(status, 2);
  assert.equal(stderr.match(/^--/gm)?.length, 3);
  assert.equal(start("--sedes", "3").status, 2);
  const help = start("--help");
  assert.equal(help.status, 0);
  for (const flag of ["--files", "--changed", "--workers", "--seeds", "--list", "--only", "--out"]) {
    assert.match(help.stdout, new RegExp(`^ +${flag} `, "m"));
  }
});

test("nothing but the cache of findings is left on the disk", () => {
  const left = ["package.json", "survivors.json", "src", "test", "simulation", "tmp", "out.md"];
  assert.deepEqual(
    left.filter((name) => !existsSync(join(root, name))),
    [],
  );
  assert.equal(readFileSync(join(root, "src/limit.ts"), "utf8"), files["src/limit.ts"]);
});
