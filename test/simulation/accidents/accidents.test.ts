/** Accidents of other projects do not happen here, and each of them happens as soon as the rule that prevents it is removed. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Wrappers } from "../replica.ts";
import type { Accident } from "./accident.ts";
import { fromIssues } from "./from-issues.ts";
import { fromTests } from "./from-tests.ts";
import { ofSizes } from "./of-sizes.ts";
import { Scene } from "./scene.ts";

/** Plays the accident. Resolves to the promises that did not hold. */
async function play({ start, story }: Accident, wrappers: Wrappers = {}): Promise<readonly string[]> {
  const scene = await Scene.open(start, wrappers);
  await story(scene);
  scene.stop();
  return scene.broken;
}

const accidents = [...fromIssues, ...ofSizes, ...fromTests];

for (const accident of accidents) {
  test(`${accident.id}: ${accident.promise} (${accident.source})`, async (context) => {
    assert.deepEqual(await play(accident), []);
    assert.ok(accident.without.length > 0);
    for (const { rule, removed, wrappers } of accident.without) {
      const broken = await play(accident, wrappers);
      context.diagnostic(`without ${rule}: ${broken.join("; ")}`);
      assert.notDeepEqual(broken, [], `without ${rule} (${removed}) nothing broke`);
    }
  });
}

test("the README lists each accident that a test plays with the rules that prevent it, and each that is not played yet", () => {
  const [played = "", waiting = ""] = readFileSync(join(import.meta.dirname, "README.md"), "utf8").split(
    "wait for what",
  );
  const rows = (text: string) =>
    [...text.matchAll(/^\| ([IF]\d+) \|.*\| (.+) \|$/gm)].map(([, id = "", last = ""]) => [id, last] as const);
  const rules = Map.groupBy(accidents, ({ id }) => id);
  const source = [...rules].map(([id, some]) => {
    const known = new Set(some.flatMap(({ without }) => without.map(({ rule }) => rule)));
    return [id, [...known].sort().join(", ")] as const;
  });
  assert.deepEqual(rows(played), source);
  const all = ["I1 I2 I3 I4 I5 I6 I7 I8 I9 I10 I11", "F1 F3 F4 F5 F8 F9 F11 F12 F13"].join(" ").split(" ");
  assert.deepEqual([...rows(played), ...rows(waiting)].map(([id]) => id).sort(), all.sort());
});
