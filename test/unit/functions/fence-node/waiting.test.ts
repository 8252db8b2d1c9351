/** The page for a person whose node waits: it has a line for each guard that a person may have to end, and for no other. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { guards } from "../../../../functions/fence-node/guards.ts";

const folder = join(import.meta.dirname, "../../../../functions/fence-node");
const read = (name: string): string => readFileSync(join(folder, name), "utf8");

/** The names in the first cell of each row of the tables whose first heading is `guard`. */
function guardsIn(text: string): readonly { readonly guard: string; readonly row: string }[] {
  const tables = [...text.matchAll(/^\| guard \|.*\n\|[ |-]+\n((?:\|.*\n)+)/gm)].map(([, rows = ""]) => rows);
  return tables.flatMap((rows) =>
    rows
      .trimEnd()
      .split("\n")
      .flatMap((row) =>
        [...(row.split("|")[1] ?? "").matchAll(/`([a-z-]+)`/g)].map(([, guard = ""]) => ({ guard, row })),
      ),
  );
}

const onPage = guardsIn(read("waiting.md")).map(({ guard }) => guard);

test("the page has one line for each guard of the README that is not just the fence going on", () => {
  const goesOn = ({ row }: { readonly row: string }) => /\| nothing \|$/.test(row) || row.includes("`not-marked`");
  const all = guardsIn(read("README.md"));
  const waits = all.filter((guard) => !goesOn(guard)).map(({ guard }) => guard);
  assert.ok(waits.length > 15 && all.length > 30, `${waits.length} of ${all.length}`);
  assert.deepEqual(onPage.toSorted(), waits.toSorted());
});

test("the page has a line for each guard that the record and the Node show", () => {
  const source = globSync("decide*.ts", { cwd: folder }).map(read).join("\n");
  const direct = [...source.matchAll(/onRecord\(\s*wait\(\s*"([a-z-]+)"/g)].map(([, guard = ""]) => guard);
  const handed = [...source.matchAll(/\{ (?:kind: "blocked", )?guard: "([a-z-]+)", message(?:, forMs: [^}]+)? \}/g)];
  const shown = new Set([...direct, ...handed.map(([, guard = ""]) => guard)]);
  assert.ok(shown.size > 12, [...shown].join());
  assert.deepEqual(
    [...shown].filter((guard) => !onPage.includes(guard)),
    [],
  );
});

test("the page has a line for each guard of the function that may need a person", () => {
  const waits = Object.entries(guards).flatMap(([guard, { ends }]) => (ends === "itself" ? [] : [guard]));
  assert.ok(waits.length > 20, `${waits.length}`);
  assert.deepEqual(
    waits.filter((guard) => !onPage.includes(guard)),
    [],
  );
});
