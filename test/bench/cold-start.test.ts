import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type ColdStart, coldStartTable } from "./cold-start-table.ts";
import { readOptions } from "./options.ts";

describe("cold starts", () => {
  it("have a name, more trials than other benchmarks, and no flag of evictions", () => {
    const reading = readOptions(["cold-start"]);
    assert.ok(reading.kind === "cold-start");
    assert.equal(reading.options.repeat, 20);
    assert.ok(readOptions(["cold-start", "--only", "reviews"]).kind === "wrong");
  });

  it("are shown as medians and as multiples of a bare Node's, and the shipped form may take three times as long", () => {
    const of = (name: string, form: ColdStart["form"], ...ms: number[]) =>
      ms.map((one) => ({ name, form, ms: one, residentBytes: 78_400_000 }));
    const table = coldStartTable([
      ...of("node", "bare", 30, 50, 40),
      ...of("node", "least", 70, 80, 90),
      ...of("client-node", "whole", 600),
      ...of("client-node", "configuration", 160),
      ...of("one", "sources", 400),
      ...of("one", "bundle", 200),
      ...of("one", "compiled", 100, 120, 110),
      ...of("two", "sources", 400),
      ...of("two", "bundle", 200),
      ...of("two", "compiled", 124),
    ]);
    assert.deepEqual(table, [
      "A bare Node: 40 (30–50)",
      "Node's own HTTP and TLS, and no package: 80 (70–90), 2.00 x, 78 MB",
      "All of client-node, loaded and no more: 600 (600–600), 15.00 x, 78 MB",
      "Its kubeconfig alone, as Sluice loads it: 160 (160–160), 4.00 x, 78 MB",
      "",
      "| | sources | bundle | compiled |",
      "|---|---|---|---|",
      "| one | 400 (400–400), 10.00 x, 78 MB | 200 (200–200), 5.00 x, 78 MB | 110 (100–120), 2.75 x, 78 MB |",
      "| two | 400 (400–400), 10.00 x, 78 MB | 200 (200–200), 5.00 x, 78 MB | ! 124 (124–124), 3.10 x, 78 MB |",
    ]);
  });
});
