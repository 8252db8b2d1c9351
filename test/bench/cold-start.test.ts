import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type ColdStart, coldStartTable } from "./cold-start-table.ts";
import { readOptions } from "./options.ts";

describe("cold starts", () => {
  it("are asked for by name, more of them than of other trials, and take no flag of evictions", () => {
    const reading = readOptions(["cold-start"]);
    assert.ok(reading.kind === "cold-start");
    assert.equal(reading.options.repeat, 20);
    assert.ok(readOptions(["cold-start", "--only", "reviews"]).kind === "wrong");
  });

  it("are told as medians and as multiples of a bare Node's, and what is shipped may take three times as long", () => {
    const of = (name: string, form: ColdStart["form"], ...ms: number[]) => ms.map((one) => ({ name, form, ms: one }));
    const table = coldStartTable([
      ...of("node", "bare", 30, 50, 40),
      ...of("one", "sources", 400),
      ...of("one", "bundle", 200),
      ...of("one", "compiled", 100, 120, 110),
      ...of("two", "sources", 400),
      ...of("two", "bundle", 200),
      ...of("two", "compiled", 124),
    ]);
    assert.deepEqual(table, [
      "A bare Node: 40 (30–50)",
      "",
      "| | sources | bundle | compiled |",
      "|---|---|---|---|",
      "| one | 400 (400–400), 10.00 x | 200 (200–200), 5.00 x | 110 (100–120), 2.75 x |",
      "| two | 400 (400–400), 10.00 x | 200 (200–200), 5.00 x | ! 124 (124–124), 3.10 x |",
    ]);
  });
});
