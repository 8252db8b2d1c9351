/** Checks the accepted survivors, and what the tests import, against the current tree, without a mutation run. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as provided from "./node-test.ts";
import { readSources, sluice } from "./project.ts";
import { readSurvivors } from "./survivors.ts";

test("each accepted survivor is a mutant of the tree: an entry must go with its code", () => {
  const mutants = new Set(readSources(sluice).mutants.map(({ id }) => id));
  const accepted = [...readSurvivors(sluice.root, sluice.survivors).values()];
  assert.ok(mutants.size > 1_000 && accepted.length > 0);
  const stale = accepted.filter(({ id }) => !mutants.has(id)).map(({ file, within }) => `${file}: ${within}`);
  assert.deepEqual(stale, []);
});

test("the tests that try mutants import from node:test only what the mutation run provides in its place", () => {
  const files = sluice.tests.flatMap((pattern) => globSync(pattern, { cwd: sluice.root }));
  assert.ok(files.length > 100);
  const missing = files.flatMap((file) => {
    const [, names = ""] =
      /^import \{([^}]*)\} from "node:test";$/m.exec(readFileSync(join(sluice.root, file), "utf8")) ?? [];
    const values = names
      .split(",")
      .map((name) => name.trim())
      .filter((name) => name !== "" && !name.startsWith("type "));
    return values.filter((name) => !(name in provided)).map((name) => `${file}: ${name}`);
  });
  assert.deepEqual(missing, []);
});
