/** Decisions depend only on the given snapshot. */
import assert from "node:assert/strict";
import { basename } from "node:path";
import { test } from "node:test";
import { table } from "../../triggers/table.ts";
import { functions, leadsTo, matches, none, type Source, withoutComments } from "../support/tree.ts";

/** A decision's comment says that it is pure, and its imports are. */
const decisions = functions.filter(({ path }) => /^decide(-[a-z]+)*\.ts$/.test(basename(path)));

test("a decision uses no clock, chance, timer, environment, or promise", () => {
  assert.ok(decisions.length >= table.length);
  none(
    matches(
      decisions,
      /\bDate\b|\bMath\.random\b|\bset(Timeout|Interval|Immediate)\b|\bprocess\b|\b(async|await|Promise|fetch)\b/,
    ),
    "decide is pure",
  );
});

/** The imports of a source at run time: without imports of types. */
function runsWith({ text }: Source): string[] {
  const imports = withoutComments(text).matchAll(/^(?:im|ex)port (?!type\b)(?:[^;"]*? from )?"([^"]+)";/gms);
  return [...imports].map(([, specifier = ""]) => specifier);
}

test("a decision imports, directly or through others, no cluster, clock, logger or module of Node", () => {
  const byPath = new Map(functions.map((source) => [source.path, source]));
  const offences: string[] = [];
  const pure = new Set<string>();
  const walk = (source: Source, from: readonly string[]): void => {
    if (pure.has(source.path)) return;
    pure.add(source.path);
    const way = [...from, source.path];
    for (const specifier of runsWith(source)) {
      const to = leadsTo(source, specifier);
      const next = byPath.get(to ?? "");
      // Budgets have expressions, which re2js compares with names: it reads and writes nothing.
      if (specifier === "re2js") continue;
      if (next === undefined || next.path.startsWith("functions/shared/kubernetes/")) {
        offences.push([...way, specifier].join(" -> "));
      } else walk(next, way);
    }
  };
  for (const decision of decisions) walk(decision, []);
  none(offences, "a decision is pure by its imports");
  assert.ok(pure.size > 2 * decisions.length, [...pure].join());
  const closure = functions.filter(({ path }) => pure.has(path));
  none(
    matches(
      closure,
      /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bprocess\.|\b(async|await|Promise|fetch)\b|\bimport\(/,
    ),
    "so is what it calls",
  );
});

test("the matcher of imports finds imports that run, and leaves out imports of types alone", () => {
  const text =
    'import type { A } from "a";\nimport { type B, c } from "b";\nexport {\n  d,\n} from "c";\nimport "d";\n';
  assert.deepEqual(runsWith({ path: "", text }), ["b", "c", "d"]);
});

/**
 * Processes of their own. The entry of the agent gives it clock, requests and device, and the simulation does so in its place.
 * That of the process manager gives it its clock.
 */
const entries = ["functions/fence-node/agent/main.ts", "functions/advance-process-restart/process-manager/main.ts"];

test("functions use no clock, chance or timer except those of Cluster", () => {
  const isOutside = (path: string) => /^functions\/shared\/(kubernetes|clock)\//.test(path) || entries.includes(path);
  const tellers = functions.filter(({ path }) => !isOutside(path));
  none(
    matches(tellers, /\bDate\.now\b|\bperformance\.now\b|\bMath\.random\b|\bset(Timeout|Interval)\b|\bprocess\.env\b/),
    "simulations have only one clock",
  );
});
