/** The survivors that are accepted, held to the tree as it is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readSources, sluice } from "./project.ts";
import { readSurvivors } from "./survivors.ts";

test("each survivor that is accepted is a mutant of the tree: an entry goes when its code does", () => {
  const mutants = new Set(readSources(sluice).mutants.map(({ id }) => id));
  const accepted = [...readSurvivors(sluice.root, sluice.survivors).values()];
  assert.ok(mutants.size > 1_000 && accepted.length > 0);
  const stale = accepted.filter(({ id }) => !mutants.has(id)).map(({ file, within }) => `${file}: ${within}`);
  assert.deepEqual(stale, []);
});
