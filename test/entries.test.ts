/** Holds the calls of one reconcile to few ways between files: a reader who follows them is not sent to and fro. */
import assert from "node:assert/strict";
import { registerHooks, stripTypeScriptTypes } from "node:module";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { getCallSites } from "node:util";
import { parse } from "acorn";

const root = fileURLToPath(new URL("..", import.meta.url));
const rooms = /^functions\/shared\/(reconcile|transaction|contract)\//;

/** The ways into files, each once: a call site and the function that it calls, of another file, in the order of the first calls. */
let ways = new Map<string, { readonly from: string; readonly to: string; readonly called: string }>();
let isOn = false;

/** Called first by each function that a module of the product declares. */
function note(file: string, name: string): void {
  if (!isOn) return;
  const caller = getCallSites(20)
    .slice(2)
    .find(({ scriptName }) => scriptName.startsWith("file:"));
  const from = caller === undefined ? "" : caller.scriptName.slice("file://".length + root.length);
  if (caller === undefined || from === file || !from.startsWith("functions/")) return;
  const site = `${from}:${caller.lineNumber}:${caller.columnNumber}`;
  const way = `${site} ${file}`;
  if (!ways.has(way)) ways.set(way, { from: site, to: file, called: name });
}

Object.assign(globalThis, { noteEntry: note });

registerHooks({
  load(url, context, next) {
    const file = url.startsWith(`file://${root}`) ? url.slice(`file://${root}`.length) : "";
    const loaded = next(url, context);
    if (!/^functions\/.*\.ts$/.test(file)) return loaded;
    return { format: "module", source: noted(file, stripTypeScriptTypes(String(loaded.source))), shortCircuit: true };
  },
});

function noted(file: string, text: string): string {
  const { body } = parse(text, { ecmaVersion: "latest", sourceType: "module" });
  let result = text;
  for (const node of body.toReversed()) {
    const declared = node.type === "ExportNamedDeclaration" ? node.declaration : node;
    if (declared?.type !== "FunctionDeclaration") continue;
    const at = declared.body.start + 1;
    result = `${result.slice(0, at)} noteEntry(${JSON.stringify(file)}, "${declared.id.name}"); ${result.slice(at)}`;
  }
  return result;
}

async function tracked(run: () => Promise<unknown>) {
  ways = new Map();
  isOn = true;
  await run();
  isOn = false;
  return [...ways.values()];
}

function report(own: string) {
  const counted = [...ways.values()].filter(({ to }) => to.startsWith(`functions/${own}/`) || rooms.test(to));
  const files = Map.groupBy(counted, ({ to }) => to);
  const returns = counted.length - files.size;
  console.log(own, "returns", returns);
  for (const [file, all] of [...files].sort((a, b) => b[1].length - a[1].length)) {
    console.log(" ", all.length, file);
    for (const { from, called } of all) console.log("       ", called, "<-", from);
  }
}

const { Passes } = await import("./unit/shared/reconcile/passes.ts");
const { Volumes } = await import("./unit/shared/suspension/volumes.ts");

test("rollout", async () => {
  const on = await new Passes().prepare();
  await tracked(() => on.run(true));
  assert.equal(on.count("delete pods"), 1);
  report("advance-zone-rollout");
});

test("a collected volume", async () => {
  const on = new Volumes("600s", { "removal-mode": "All" });
  await on.suspended();
  for (let i = 0; i < 1000 && on.count("delete persistentvolumeclaims") === 0; i++) {
    on.forget();
    await on.goOn(10_000);
    await tracked(() => on.collect());
  }
  assert.equal(on.count("delete persistentvolumeclaims"), 1);
  report("gc-suspended-groups");
});
