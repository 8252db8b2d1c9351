/** The table of the rules of scaling: each rule has a row, and each row names an existing test. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const root = join(import.meta.dirname, "../..");
const row = /^\| (3\.\S+(?: [^|]+?)?) \|.*\| `([^`]+)`: "([^"]+)" \|$/gm;
const rows = [...readFileSync(join(root, "knative/scaling-rules.md"), "utf8").matchAll(row)].map(
  ([, rule = "", file = "", name = ""]) => ({ rule, file, name }),
);

test("every rule of the description has its row", () => {
  const numbered = (section: string, last: number) =>
    Array.from({ length: last }, (_, index) => `${section}.${index + 1}`);
  const down = ["equal", "up", "down 1", "down 2", "down 3", "409", "missing", "calls"];
  const prepared = numbered("3.5", 10).flatMap((rule) => (rule === "3.5.7" ? ["3.5.7a", "3.5.7b", "3.5.7c"] : [rule]));
  assert.deepEqual(
    rows.map(({ rule }) => rule),
    [
      ...numbered("3.1", 5),
      ...numbered("3.2", 5),
      "3.3",
      "3.4",
      ...down.map((part) => `3.4 ${part}`),
      ...prepared,
      ...["3.5.7a′", "3.5.7c′", "3.5.9′", "3.5 limits"],
      ...numbered("3.6", 4),
      "3.7",
    ],
  );
});

test("every row names an existing test", () => {
  const lost = rows.filter(
    ({ file, name }) => !new RegExp(`test\\(\\s*"${escaped(name)}`).test(readFileSync(join(root, file), "utf8")),
  );
  assert.deepEqual(lost, []);
});

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
