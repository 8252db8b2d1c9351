/** Checks the accepted survivors against the current tree. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readSources, sluice } from "./project.ts";
import { readSurvivors } from "./survivors.ts";

test("each accepted survivor is a mutant of the tree: an entry must go with its code", () => {
  const mutants = new Set(readSources(sluice).mutants.map(({ id }) => id));
  const accepted = [...readSurvivors(sluice.root, sluice.survivors).values()];
  assert.ok(mutants.size > 1_000 && accepted.length > 0);
  const stale = accepted.filter(({ id }) => !mutants.has(id)).map(({ file, within }) => `${file}: ${within}`);
  assert.deepEqual(stale, []);
});
